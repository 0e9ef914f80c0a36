// Figures of the machine a plan is priced for. Only ratios matter to placement: they decide between
// plans that keep equally much of the sequence whole.
#pragma once

#include <cstdint>

namespace autosp::cost {

struct Machine {
  // NVIDIA H100 SXM data sheet: 989 TFLOP/s bf16 dense, 3.35 TB/s of memory, 450 GB/s of NVLink
  // each way; taken at the shares of peak that large kernels reach.
  double flops = 5e14;     // multiply-adds count two, per second
  double memory = 2.5e12;  // bytes per second
  double link = 2e11;      // bytes per second that one rank sends
  double latency = 1e-5;   // seconds for one collective
  // Seconds of a kernel beyond its work, an assumption: what is too small to fill the machine is
  // not worth running again. Placement does not price it.
  double launch = 3e-6;

  friend bool operator==(const Machine&, const Machine&) = default;
};

}  // namespace autosp::cost
