/* A program for OpenCL as anybody writes it: adds two vectors, in work-groups with local memory, and checks the sum. */
#define CL_TARGET_OPENCL_VERSION 120
#include "check.h"
#include <stdlib.h>

static const char *source =
    "kernel void add(global const float *a, global const float *b, global float *c, local float *part, uint n) {\n"
    "  size_t i = get_global_id(0) - get_global_offset(0), l = get_local_id(0);\n"
    "  part[l] = i < n ? a[i] : 0;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  if (i < n) c[i] = part[l] + b[i];\n"
    "}\n";

static int add(cl_device_id device) {
  enum { N = 100000, BYTES = N * sizeof(float), LOCAL = 64, GLOBAL = (N + LOCAL - 1) / LOCAL * LOCAL };
  cl_int code;
  char name[256];
  CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  cl_command_queue queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
  CHECK(code);
  float *a = malloc(BYTES), *b = malloc(BYTES), *c = malloc(BYTES);
  for (int i = 0; i < N; i++) {
    a[i] = (float)i;
    b[i] = 2 * (float)i;
  }
  cl_mem first = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, BYTES, a, &code);
  CHECK(code);
  cl_mem second = clCreateBuffer(context, CL_MEM_READ_ONLY, BYTES, NULL, &code);
  CHECK(code);
  cl_mem sum = clCreateBuffer(context, CL_MEM_WRITE_ONLY, BYTES, NULL, &code);
  CHECK(code);
  CHECK(clEnqueueWriteBuffer(queue, second, CL_FALSE, 0, BYTES, b, 0, NULL, NULL));
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
    char log[4096];
    CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
    fprintf(stderr, "%s\n", log);
    return 1;
  }
  cl_kernel kernel = clCreateKernel(program, "add", &code);
  CHECK(code);
  cl_uint n = N;
  CHECK(clSetKernelArg(kernel, 0, sizeof first, &first));
  CHECK(clSetKernelArg(kernel, 1, sizeof second, &second));
  CHECK(clSetKernelArg(kernel, 2, sizeof sum, &sum));
  CHECK(clSetKernelArg(kernel, 3, LOCAL * sizeof(float), NULL));
  CHECK(clSetKernelArg(kernel, 4, sizeof n, &n));
  size_t offset = 1000, global = GLOBAL, local = LOCAL;
  cl_event added;
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, &offset, &global, &local, 0, NULL, &added));
  CHECK(clEnqueueReadBuffer(queue, sum, CL_TRUE, 0, BYTES, c, 1, &added, NULL));
  for (int i = 0; i < N; i++) {
    if (c[i] != 3 * (float)i) {
      fprintf(stderr, "element %d is %f\n", i, c[i]);
      return 1;
    }
  }
  cl_ulong start, end;
  CHECK(clGetEventProfilingInfo(added, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
  CHECK(clGetEventProfilingInfo(added, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
  if (end < start) return 1;
  printf("added on %s\n", name);
  CHECK(clReleaseEvent(added));
  CHECK(clReleaseKernel(kernel));
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseMemObject(first));
  CHECK(clReleaseMemObject(second));
  CHECK(clReleaseMemObject(sum));
  CHECK(clReleaseCommandQueue(queue));
  CHECK(clReleaseContext(context));
  free(a);
  free(b);
  free(c);
  return 0;
}

int main(void) {
  cl_platform_id platforms[16];
  cl_device_id devices[16];
  cl_uint platform_count, count;
  CHECK(clGetPlatformIDs(16, platforms, &platform_count));
  for (cl_uint p = 0; p < platform_count; p++) {
    CHECK(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &count));
    for (cl_uint i = 0; i < count; i++) {
      if (add(devices[i])) return 1;
    }
  }
  return 0;
}
