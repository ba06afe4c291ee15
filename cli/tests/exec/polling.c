/* Polls events without a flush, as programs do that have other work meanwhile: of a kernel, and of a write and a kernel that waits for it. */
#define CL_TARGET_OPENCL_VERSION 120
#include "check.h"
#include <unistd.h>

static const char *source = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }\n";

/* Comes back when the command is over. */
static int until_over(cl_event event) {
  cl_int status;
  do {
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    if (status < 0) return 1;
  } while (status != CL_COMPLETE);
  return 0;
}

static int run(cl_device_id device) {
  enum { N = 1000 };
  int x[N];
  cl_int code;
  char name[256];
  CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
  CHECK(code);
  cl_command_queue other = clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
  CHECK(code);
  for (int i = 0; i < N; i++) x[i] = i;
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x, &code);
  CHECK(code);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
  cl_kernel kernel = clCreateKernel(program, "twice", &code);
  CHECK(code);
  CHECK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
  size_t global = N;
  cl_event event, written;
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, &event));
  if (until_over(event)) return 1;
  CHECK(clReleaseEvent(event));
  for (int i = 0; i < N; i++) x[i] = 3 * i;
  CHECK(clEnqueueWriteBuffer(queue, memory, CL_FALSE, 0, sizeof x, x, 0, NULL, &written));
  CHECK(clEnqueueNDRangeKernel(other, kernel, 1, NULL, &global, NULL, 1, &written, &event));
  if (until_over(event)) return 1;
  CHECK(clReleaseEvent(event));
  CHECK(clReleaseEvent(written));
  CHECK(clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, sizeof x, x, 0, NULL, &event));
  if (until_over(event)) return 1;
  CHECK(clReleaseEvent(event));
  for (int i = 0; i < N; i++) {
    if (x[i] != 6 * i) return 1;
  }
  printf("polled on %s\n", name);
  CHECK(clReleaseKernel(kernel));
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseMemObject(memory));
  CHECK(clReleaseCommandQueue(other));
  CHECK(clReleaseCommandQueue(queue));
  CHECK(clReleaseContext(context));
  return 0;
}

int main(void) {
  /* Ends the program where a command never does. */
  alarm(120);
  cl_platform_id platforms[16];
  cl_device_id devices[16];
  cl_uint platform_count, count;
  CHECK(clGetPlatformIDs(16, platforms, &platform_count));
  for (cl_uint p = 0; p < platform_count; p++) {
    CHECK(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &count));
    for (cl_uint i = 0; i < count; i++) {
      if (run(devices[i])) return 1;
    }
  }
  return 0;
}
