/* The hot loops. No Python here: pointers and sizes that module.c has checked. */

#ifndef DPSTREAM_LOOPS_H
#define DPSTREAM_LOOPS_H

#include "draws.h"
#include "labels.h"
#include "recurrence.h"
#include "rounding.h"
#include "stack.h"
#include "sums.h"

#define REAL float
#define TILE TILE_F32
#define NORMAL_TILE normal_tile_f32
#define NAMED(name) loop_##name##_f32
#include "vectors.h"
#undef REAL
#undef TILE
#undef NORMAL_TILE
#undef NAMED

#define REAL double
#define TILE TILE_F64
#define NORMAL_TILE normal_tile_f64
#define NAMED(name) loop_##name##_f64
#include "vectors.h"
#undef REAL
#undef TILE
#undef NORMAL_TILE
#undef NAMED

#endif
