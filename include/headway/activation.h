// Activation functions.
#pragma once

namespace headway {
inline namespace v0 {

enum class Activation {
  none,
  relu,
  gelu,       // x * Phi(x), with the error function
  gelu_tanh,  // its approximation by tanh
  silu,
  tanh,
  sigmoid,
  quick_gelu,  // x * sigmoid(1.702 x), in CLIP
};

}  // namespace v0
}  // namespace headway
