/* A program for OpenCL whose kernels print, as the program does, to a standard output that is kept by the C library. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"

static const char *source =
    "kernel void item(int number) { printf(\"item %d of %#x\\n\", number, 42); }\n"
    "kernel void much(void) { for (int i = 0; i < 20000; i++) printf(\"much %d\\n\", i); }\n";

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int code;
  size_t one = 1;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &code);
  CHECK(code);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  CHECK(clBuildProgram(program, 1, &device, NULL, NULL, NULL));
  cl_kernel item = clCreateKernel(program, "item", &code);
  CHECK(code);
  cl_kernel much = clCreateKernel(program, "much", &code);
  CHECK(code);
  for (int number = 0; number < 50; number++) {
    printf("enqueued %d\n", number);
    CHECK(clSetKernelArg(item, 0, sizeof number, &number));
    CHECK(clEnqueueNDRangeKernel(queue, item, 1, NULL, &one, NULL, 0, NULL, NULL));
    CHECK(clFinish(queue));
    printf("finished %d\n", number);
  }
  CHECK(clEnqueueNDRangeKernel(queue, much, 1, NULL, &one, NULL, 0, NULL, NULL));
  CHECK(clFinish(queue));
  CHECK(clReleaseKernel(item));
  CHECK(clReleaseKernel(much));
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseCommandQueue(queue));
  CHECK(clReleaseContext(context));
  return 0;
}
