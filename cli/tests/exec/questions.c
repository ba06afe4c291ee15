/* A program for OpenCL that asks its device and kernels of it all that there is, by numbers, and prints the answers. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"

static const char *source =
    "kernel void plain(global int *out) { out[get_global_id(0)] = 1; }\n"
    "kernel __attribute__((reqd_work_group_size(8, 2, 1))) void required(global int *out) { *out = 1; }\n"
    "kernel void shared(global int *out, local int *given) {\n"
    "  local int own[64];\n"
    "  own[get_local_id(0)] = given[0] = *out;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  *out = own[1];\n"
    "}\n"
    "kernel void private_array(global int *out, int at) {\n"
    "  int own[2000];\n"
    "  for (int i = 0; i < 2000; i++) own[i] = out[i];\n"
    "  barrier(CLK_GLOBAL_MEM_FENCE);\n"
    "  *out = own[at];\n"
    "}\n";

static unsigned char bytes[1 << 16];

static void print(const char *of, unsigned name, cl_int code, size_t length) {
  if (code != CL_SUCCESS) return;
  printf("%s %#x:", of, name);
  for (size_t i = 0; i < length; i++) printf(" %02x", bytes[i]);
  printf("\n");
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int code;
  size_t length;
  cl_kernel kernels[4];
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  for (unsigned name = 0x1000; name < 0x5000; name++) {
    code = clGetDeviceInfo(device, name, sizeof bytes, bytes, &length);
    /* Its address. */
    if (name != CL_DEVICE_PLATFORM) print("device", name, code, length);
  }
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
  CHECK(clCreateKernelsInProgram(program, 4, kernels, NULL));
  for (int i = 0; i < 4; i++) {
    char name[64];
    CHECK(clGetKernelInfo(kernels[i], CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL));
    for (unsigned question = 0x11b0; question < 0x11c0; question++) {
      code = clGetKernelWorkGroupInfo(kernels[i], device, question, sizeof bytes, bytes, &length);
      print(name, question, code, length);
    }
    CHECK(clReleaseKernel(kernels[i]));
  }
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseContext(context));
  return 0;
}
