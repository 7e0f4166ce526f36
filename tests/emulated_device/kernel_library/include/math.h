#include_next <math.h>
#include "graphcap/math_macros.h"
