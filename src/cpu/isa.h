// Which instruction set the kernels run on.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/decoding.h"
#include "cpu/kernels/matmul.h"
#include "cpu/kernels/optimizer.h"
#include "cpu/kernels/pointwise.h"
#include "cpu/kernels/quantized.h"
#include "cpu/kernels/rowwise.h"

namespace headway::inline v0::internal::cpu {

// The kernels for tensors of a floating dtype on the instruction set in use.
const AttentionKernels& attention_kernels(DType dtype);
const MatmulKernels& matmul_kernels(DType dtype);
// The kernels that take their dtype with each call.
const PointwiseKernels& pointwise_kernels();
const RowwiseKernels& rowwise_kernels();
const OptimizerKernels& optimizer_kernels();
const DecodingKernels& decoding_kernels();
const QuantizedKernels& quantized_kernels();

}  // namespace headway::inline v0::internal::cpu
