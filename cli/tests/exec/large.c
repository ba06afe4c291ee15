/* A program for OpenCL whose kernel has a name of thousands of bytes, options of as many, and hundreds of arguments. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { NAME = 4000, DEFINITIONS = 600, ARGUMENTS = 300 };

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int code, sum = -1;
  size_t most, one = 1;
  char *name = malloc(NAME + 1), *options = calloc(1, 1 << 15), *source = calloc(1, 1 << 16), *told = malloc(NAME + 1);
  memset(name, 'k', NAME);
  name[NAME] = 0;
  for (int i = 0; i < DEFINITIONS; i++) sprintf(options + strlen(options), "-DNUMBER_%d=%d ", i, i);
  sprintf(source, "kernel void %s(global int *sum", name);
  for (int i = 1; i < ARGUMENTS; i++) sprintf(source + strlen(source), ", char c%d", i);
  strcat(source, ") { *sum = NUMBER_599");
  for (int i = 1; i < ARGUMENTS; i++) sprintf(source + strlen(source), " + c%d", i);
  strcat(source, "; }");
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_PARAMETER_SIZE, sizeof most, &most, NULL));
  printf("bytes of arguments: %zu\n", most);
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &code);
  CHECK(code);
  cl_program program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &code);
  CHECK(code);
  CHECK(clBuildProgram(program, 1, &device, options, NULL, NULL));
  cl_kernel kernel = clCreateKernel(program, name, &code);
  CHECK(code);
  CHECK(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, NAME + 1, told, NULL));
  printf("name: %d\n", strcmp(name, told));
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof sum, NULL, &code);
  CHECK(code);
  CHECK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
  for (int i = 1; i < ARGUMENTS; i++) {
    char value = i % 3;
    CHECK(clSetKernelArg(kernel, i, 1, &value));
  }
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
  CHECK(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof sum, &sum, 0, NULL, NULL));
  printf("sum: %d\n", sum);
  CHECK(clReleaseMemObject(memory));
  CHECK(clReleaseKernel(kernel));
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseCommandQueue(queue));
  CHECK(clReleaseContext(context));
  return 0;
}
