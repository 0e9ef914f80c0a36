// The part of autosp._core that hands the checkpointing algorithms to the tests, on plain numbers.
#pragma once

#include <nanobind/nanobind.h>

void bindCheckpointAlgorithms(nanobind::module_& m);
