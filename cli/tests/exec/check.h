/* What the programs here include: OpenCL, and a check that ends a function with 1 where a call fails, and says which. */
#include <CL/cl.h>
#include <stdio.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const cl_int returned = (call);                                                                                    \
    if (returned != CL_SUCCESS) {                                                                                      \
      fprintf(stderr, "%s: %d\n", #call, returned);                                                                    \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)
