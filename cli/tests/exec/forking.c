/* A program that lists devices, forks, and uses them in the child; then in the parent, whose next child cannot. */
#define main main_of_addition
#include "vector_addition.c"
#undef main
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t child) {
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  pid_t child = fork();
  if (child == 0) {
    alarm(300);
    exit(add(device));
  }
  if (wait_for(child) != 0 || add(device) != 0) return 1;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    cl_int code;
    alarm(300);
    clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    printf("child: %d\n", code);
    exit(0);
  }
  return wait_for(child) != 0 || add(device) != 0;
}
