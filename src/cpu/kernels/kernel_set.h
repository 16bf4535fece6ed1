// The kernels of every instruction set, by the namespaces that Highway gives them.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/decoding.h"
#include "cpu/kernels/matmul.h"
#include "cpu/kernels/optimizer.h"
#include "cpu/kernels/pointwise.h"
#include "cpu/kernels/quantized.h"
#include "cpu/kernels/rowwise.h"

namespace headway::inline v0::internal {

// The kernels around products, which have an arithmetic: what is multiplied and what is summed.
struct ProductKernels {
  AttentionKernels attention;
  MatmulKernels matmul;
};

struct KernelSet {
  ProductKernels float32;  // float16 too: converted on the way in and out
  ProductKernels float64;
  ProductKernels bfloat16;  // like float32, or with bf16 dot products
  PointwiseKernels pointwise;
  RowwiseKernels rowwise;
  OptimizerKernels optimizer;
  DecodingKernels decoding;
  QuantizedKernels quantized;
};

namespace N_SSE4 {
KernelSet kernel_set();
}
namespace N_AVX2 {
KernelSet kernel_set();
}
namespace N_AVX3 {
KernelSet kernel_set();
}
namespace N_AVX3_DL {
KernelSet kernel_set();  // the products of bfloat16 and of 8 bits alone
}
namespace N_NEON {
KernelSet kernel_set();
}

}  // namespace headway::inline v0::internal
