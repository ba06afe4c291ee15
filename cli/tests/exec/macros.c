/* A program for OpenCL that compares the macros that kernels see with what their devices list. The names are its arguments. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"
#include <stdlib.h>
#include <string.h>

/* The place of a name in a list that blanks separate. */
static int lists(const char *all, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = all; (at = strstr(at, name)); at += length)
    if ((at == all || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return 1;
  return 0;
}

static int features(cl_device_id device, const char *name, int *is_listed) {
  size_t bytes;
  CHECK(clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, 0, NULL, &bytes));
  cl_name_version *all = malloc(bytes + 1);
  CHECK(clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, bytes, all, NULL));
  *is_listed = 0;
  for (size_t i = 0; i < bytes / sizeof *all; i++) *is_listed |= !strcmp(all[i].name, name);
  free(all);
  return 0;
}

int main(int count, char **names) {
  static char source[1 << 16], extensions[1 << 16], options[64];
  static const char *versions[] = {"CL1.2", "CL2.0", "CL3.0"};
  cl_device_id devices[8];
  cl_uint number;
  cl_int code, wrong = 0;
  CHECK(clGetDeviceIDs(NULL, CL_DEVICE_TYPE_ALL, 8, devices, &number));
  cl_context context = clCreateContext(NULL, number, devices, NULL, NULL, &code);
  CHECK(code);
  char *end = source + sprintf(source, "kernel void k(global int *out) {\n");
  end += sprintf(end, "#ifdef __IMAGE_SUPPORT__\nout[0] = 1;\n#endif\n");
  for (int i = 1; i < count; i++) end += sprintf(end, "#ifdef %s\nout[%d] = 1;\n#endif\n", names[i], i);
  sprintf(end, "}\n");
  for (int version = 0; version < 3; version++) {
    sprintf(options, "-cl-std=%s", versions[version]);
    const char *text = source;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &code);
    CHECK(code);
    CHECK(clBuildProgram(program, 0, NULL, options, NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "k", &code);
    CHECK(code);
    for (cl_uint at = 0; at < number; at++) {
      cl_command_queue queue = clCreateCommandQueueWithProperties(context, devices[at], NULL, &code);
      CHECK(code);
      const size_t bytes = count * sizeof(cl_int), one = 1;
      cl_int *out = calloc(count, sizeof *out);
      cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, bytes, out, &code);
      CHECK(code);
      CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
      CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
      CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, out, 0, NULL, NULL));
      cl_bool has_images;
      CHECK(clGetDeviceInfo(devices[at], CL_DEVICE_IMAGE_SUPPORT, sizeof has_images, &has_images, NULL));
      CHECK(clGetDeviceInfo(devices[at], CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
      if (out[0] != (cl_int)has_images) wrong = 1, printf("%s on device %u: __IMAGE_SUPPORT__ is %d\n", versions[version], at, out[0]);
      for (int i = 1; i < count; i++) {
        int is_listed;
        const int is_extension = !strncmp(names[i], "cl_", 3);
        if (is_extension)
          is_listed = lists(extensions, names[i]);
        else if (features(devices[at], names[i], &is_listed))
          return 1;
        /* Features are told of in OpenCL C 3.0. Before 2.0 there are no atomic types that an extension could be about. */
        if (!is_extension && version < 2) continue;
        if (out[i] == is_listed || (version == 0 && !strcmp(names[i], "cl_ext_float_atomics"))) continue;
        wrong = 1;
        printf("%s on device %u: %s is %sdefined, and %slisted\n", versions[version], at, names[i], out[i] ? "" : "not ",
               is_listed ? "" : "not ");
      }
      CHECK(clReleaseMemObject(buffer));
      CHECK(clReleaseCommandQueue(queue));
      free(out);
    }
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
  }
  if (!wrong) printf("true on %u\n", number);
  CHECK(clReleaseContext(context));
  return 0;
}
