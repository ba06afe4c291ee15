/* A program for OpenCL that links programs of several parts, and prints what comes of it. Its arguments are two modules of SPIR-V,
   each with a kernel `k` and a specialisation constant 7; the second lacks a function `twice`. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

static cl_program text(const char *source) {
  return clCreateProgramWithSource(context, 1, &source, NULL, NULL);
}

static cl_program module(const char *path) {
  static unsigned char bytes[1 << 16];
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  return clCreateProgramWithIL(context, bytes, length, NULL);
}

static cl_int compile(cl_program program, const char *name, cl_program header) {
  return clCompileProgram(program, 0, NULL, "-DADDED=3", header ? 1 : 0, header ? &header : NULL, header ? &name : NULL,
                          NULL, NULL);
}

static cl_program link_two(const char *options, cl_program one, cl_program other) {
  cl_program programs[] = {one, other};
  cl_int code;
  cl_program linked = clLinkProgram(context, 0, NULL, options, other ? 2 : 1, programs, NULL, NULL, &code);
  printf("linked: %d\n", code);
  return linked;
}

static int log_of(cl_program program) {
  char log[4096];
  CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
  printf("log: %s\n", log);
  return 0;
}

/* A program of another's binary, built. */
static cl_program again(cl_program program) {
  static unsigned char bytes[1 << 16];
  unsigned char *binary = bytes;
  size_t length;
  cl_int code;
  clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL);
  clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
  cl_program made = clCreateProgramWithBinary(context, 1, &device, &length, (const unsigned char **)&binary, NULL, &code);
  printf("made of a binary: %d\n", code);
  printf("built: %d\n", clBuildProgram(made, 0, NULL, NULL, NULL, NULL));
  return made;
}

/* Runs kernel `k` on a number. */
static int run(cl_program program, cl_int number) {
  cl_int code;
  size_t items = 2;
  cl_kernel kernel = clCreateKernel(program, "k", &code);
  CHECK(code);
  cl_mem memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof number, &number, &code);
  CHECK(code);
  CHECK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL));
  CHECK(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof number, &number, 0, NULL, NULL));
  printf("number: %d\n", number);
  CHECK(clReleaseMemObject(memory));
  CHECK(clReleaseKernel(kernel));
  CHECK(clReleaseProgram(program));
  return 0;
}

int main(int count, char **arguments) {
  cl_platform_id platform;
  cl_bool links;
  cl_uint constant = 5;
  char versions[256];
  cl_int code;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  queue = clCreateCommandQueueWithProperties(context, device, NULL, &code);
  CHECK(code);
  CHECK(clGetDeviceInfo(device, CL_DEVICE_LINKER_AVAILABLE, sizeof links, &links, NULL));
  CHECK(clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof versions, versions, NULL));
  printf("linker: %u, '%s'\n", links, versions);

  cl_program kernel = text("#include \"deep/header.h\"\n"
                           "int twice(int);\n"
                           "kernel void k(global int *to) { if (!get_global_id(0)) *to = twice(NUMBER) + ADDED + *to; }\n");
  cl_program helper = text("int twice(int x) { return 2 * x; }\n");
  CHECK(compile(kernel, "deep/header.h", text("#define NUMBER 21\n")));
  CHECK(compile(helper, NULL, NULL));
  if (run(link_two("", kernel, helper), 1000)) return 1;
  cl_program library = link_two("-create-library", helper, NULL);
  cl_program linked = link_two("", kernel, library);
  if (run(again(linked), 2000) || run(linked, 3000)) return 1;
  if (log_of(link_two("", kernel, NULL))) return 1;
  cl_program bad = text("int twice(int x) { return missing; }\n");
  printf("compiled: %d\n", compile(bad, NULL, NULL));
  if (log_of(bad)) return 1;

  if (count < 3) return 0;
  cl_program whole = module(arguments[1]), part = module(arguments[2]);
  CHECK(clSetProgramSpecializationConstant(whole, 7, sizeof constant, &constant));
  CHECK(clBuildProgram(whole, 0, NULL, NULL, NULL, NULL));
  if (run(whole, 1)) return 1;
  cl_program thrice = text("uint twice(uint x) { return 3 * x; }\n");
  CHECK(clCompileProgram(part, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL));
  CHECK(compile(thrice, NULL, NULL));
  return run(link_two("", part, thrice), 1);
}
