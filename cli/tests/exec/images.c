/* A program for OpenCL that draws with images on each device, and on two devices of one context, and prints what it sees. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"
#include <string.h>

enum { WIDTH = 8, HEIGHT = 4 };

static const char *source =
    "constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;\n"
    "kernel void mirror(read_only image2d_t from, sampler_t given, write_only image2d_t to, int add) {\n"
    "  int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "  int2 size = get_image_dim(from);\n"
    "  uint4 texel = read_imageui(from, nearest, (int2)(size.x - 1 - at.x, at.y));\n"
    "  uint4 outside = read_imageui(from, given, (int2)(-5, at.y));\n"
    "  write_imageui(to, at, texel + outside + (uint)add);\n"
    "}\n"
    "kernel void sums(read_only image2d_array_t from, global float *sums) {\n"
    "  int layer = get_global_id(0);\n"
    "  float sum = 0;\n"
    "  for (int y = 0; y < get_image_height(from); y++)\n"
    "    for (int x = 0; x < get_image_width(from); x++) sum += read_imagef(from, (int4)(x, y, layer, 0)).x;\n"
    "  sums[layer] = sum;\n"
    "}\n";

static cl_mem image(cl_context context, cl_mem_object_type type, cl_channel_order order, cl_channel_type data, size_t layers) {
  cl_image_format format = {order, data};
  cl_image_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.image_type = type;
  desc.image_width = WIDTH;
  desc.image_height = HEIGHT;
  desc.image_array_size = layers;
  return clCreateImage(context, CL_MEM_READ_WRITE, &format, &desc, NULL, NULL);
}

static unsigned sum_of(const unsigned char *bytes, size_t count) {
  unsigned sum = 0;
  for (size_t i = 0; i < count; i++) sum = sum * 31 + bytes[i];
  return sum;
}

static int draw(cl_context context, cl_program program, cl_device_id first, cl_device_id second) {
  cl_int code, one = 1;
  unsigned char texels[WIDTH * HEIGHT * 4];
  float ramp[3 * WIDTH * HEIGHT], sums[3];
  size_t origin[3] = {0}, region[3] = {WIDTH, HEIGHT, 1}, size[2] = {WIDTH, HEIGHT}, part[3] = {3, 2, 1}, at[3] = {2, 1, 0};
  cl_uint colour[4] = {9, 8, 7, 6};
  cl_command_queue queues[2];
  cl_device_id devices[2] = {first, second};
  for (int i = 0; i < 2; i++) {
    queues[i] = clCreateCommandQueueWithProperties(context, devices[i], NULL, &code);
    CHECK(code);
  }
  for (size_t i = 0; i < sizeof texels; i++) texels[i] = (unsigned char)(i * 7);
  cl_mem from = image(context, CL_MEM_OBJECT_IMAGE2D, CL_RGBA, CL_UNSIGNED_INT8, 0);
  cl_mem to = image(context, CL_MEM_OBJECT_IMAGE2D, CL_RGBA, CL_UNSIGNED_INT8, 0);
  cl_sampler sampler = clCreateSamplerWithProperties(
      context, (cl_sampler_properties[]){CL_SAMPLER_NORMALIZED_COORDS, CL_FALSE, CL_SAMPLER_ADDRESSING_MODE, CL_ADDRESS_CLAMP,
                                         CL_SAMPLER_FILTER_MODE, CL_FILTER_NEAREST, 0}, &code);
  CHECK(code);
  cl_kernel mirror = clCreateKernel(program, "mirror", &code);
  CHECK(code);
  CHECK(clEnqueueWriteImage(queues[0], from, CL_TRUE, origin, region, 0, 0, texels, 0, NULL, NULL));
  CHECK(clEnqueueFillImage(queues[0], from, colour, at, part, 0, NULL, NULL));
  CHECK(clSetKernelArg(mirror, 1, sizeof sampler, &sampler));
  CHECK(clSetKernelArg(mirror, 3, sizeof one, &one));
  for (int i = 0; i < 2; i++) {
    CHECK(clSetKernelArg(mirror, 0, sizeof from, i ? &to : &from));
    CHECK(clSetKernelArg(mirror, 2, sizeof to, i ? &from : &to));
    CHECK(clEnqueueNDRangeKernel(queues[i], mirror, 2, NULL, size, NULL, 0, NULL, NULL));
    CHECK(clFinish(queues[i]));
  }
  size_t pitch;
  unsigned char *mapped = clEnqueueMapImage(queues[1], from, CL_TRUE, CL_MAP_READ, origin, region, &pitch, NULL, 0, NULL, NULL, &code);
  CHECK(code);
  for (int y = 0; y < HEIGHT; y++) memcpy(texels + y * WIDTH * 4, mapped + y * pitch, WIDTH * 4);
  CHECK(clEnqueueUnmapMemObject(queues[1], from, mapped, 0, NULL, NULL));
  CHECK(clFinish(queues[1]));
  printf("texel: %u %u %u %u, all: %u\n", texels[(WIDTH + 2) * 4], texels[(WIDTH + 2) * 4 + 1], texels[4], texels[sizeof texels - 1],
         sum_of(texels, sizeof texels));

  for (int i = 0; i < 3 * WIDTH * HEIGHT; i++) ramp[i] = (float)i;
  size_t layers = 3, all[3] = {WIDTH, HEIGHT, 3};
  cl_mem array = image(context, CL_MEM_OBJECT_IMAGE2D_ARRAY, CL_R, CL_FLOAT, layers);
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof sums, NULL, &code);
  CHECK(code);
  cl_kernel adds = clCreateKernel(program, "sums", &code);
  CHECK(code);
  CHECK(clEnqueueWriteImage(queues[0], array, CL_TRUE, origin, all, 0, 0, ramp, 0, NULL, NULL));
  CHECK(clSetKernelArg(adds, 0, sizeof array, &array));
  CHECK(clSetKernelArg(adds, 1, sizeof buffer, &buffer));
  CHECK(clEnqueueNDRangeKernel(queues[1], adds, 1, NULL, &layers, NULL, 0, NULL, NULL));
  CHECK(clEnqueueReadBuffer(queues[1], buffer, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL));
  printf("layers: %g %g %g\n", sums[0], sums[1], sums[2]);
  CHECK(clReleaseMemObject(from));
  CHECK(clReleaseMemObject(to));
  CHECK(clReleaseMemObject(array));
  CHECK(clReleaseMemObject(buffer));
  return 0;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id devices[8];
  cl_uint count, formats;
  cl_int code;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, devices, &count));
  cl_context context = clCreateContext(NULL, count, devices, NULL, NULL, &code);
  CHECK(code);
  for (cl_uint i = 0; i < count; i++) {
    cl_bool has;
    size_t width;
    CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL));
    CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof width, &width, NULL));
    if (!has || width < 8192) {
      printf("no images\n");
      return 0;
    }
  }
  CHECK(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &formats));
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  CHECK(clBuildProgram(program, 0, NULL, "", NULL, NULL));
  printf("devices: %u, formats: %s\n", count, formats >= 40 ? "many" : "few");
  for (cl_uint i = 0; i < count; i++) {
    if (draw(context, program, devices[i], devices[(i + 1) % count])) return 1;
  }
  return 0;
}
