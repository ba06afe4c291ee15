/* A program for OpenCL whose kernel is a text that includes files of this machine: from the current folder and from `include`. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"

static const char *source = "#include \"near.h\"\n"
                            "#include <scale.h>\n"
                            "kernel void scale(global int *x) { x[get_global_id(0)] = scaled(x[get_global_id(0)]) + NEAR; }\n";

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int code, values[4] = {1, 2, 3, 4};
  size_t count = 4;
  char log[4096], name[256];
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &code);
  CHECK(code);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  code = clBuildProgram(program, 1, &device, "-I include", NULL, NULL);
  CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
  printf("built: %d\n%s\n", code, log);
  if (code != CL_SUCCESS) return 0;
  cl_kernel kernel = clCreateKernel(program, "scale", &code);
  CHECK(code);
  cl_mem memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &code);
  CHECK(code);
  CHECK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL));
  CHECK(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL));
  printf("scaled on %s: %d %d %d %d\n", name, values[0], values[1], values[2], values[3]);
  CHECK(clReleaseMemObject(memory));
  CHECK(clReleaseKernel(kernel));
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseCommandQueue(queue));
  CHECK(clReleaseContext(context));
  return 0;
}
