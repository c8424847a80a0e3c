// The guard's C functions, for a program of C: this file and its headers are all of it.
#define VERSIEVE_GUARD_IMPLEMENTATION
#include "serving_guard_c.h"
