// What this machine can do at best, measured in the same run: multiply-adds and memory reads.
#pragma once

#include <cstddef>
#include <vector>

namespace bench {

// GFLOP/s of float32 fused multiply-adds with the widest vectors of the machine, on `threads` threads at once.
double float32_peak(int threads);

// The same for bfloat16 dot products that accumulate in float32; the float32 peak where the machine has none.
double bfloat16_peak(int threads);

// True where the machine has instructions for bfloat16 dot products.
bool has_bfloat16_dot();

// Giga-operations per second of multiply-adds of 8-bit integers that are summed in 32 bits: by VNNI where the machine
// has it, else by multiply-adds of 16 bits.
double int8_peak(int threads);

// GB/s of reading a buffer far larger than the caches, on `threads` threads at once.
class ReadBandwidth {
 public:
  ReadBandwidth();
  double measure(int threads) const;

 private:
  std::vector<float> buffer_;  // [kBytes / 4]
};

}  // namespace bench
