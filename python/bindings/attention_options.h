// Arguments and results that the calls of attention share.
#pragma once

#include <string>

#include "bindings/bindings.h"
#include "headway/attention.h"

namespace headway::python {

// A headway.Tensor, or any array that DLPack's C exchange API can lend while the call lasts.
Tensor read_tensor(const std::string& argument, nb::handle value);

// Options by their Python names; `function` begins the errors.
AttentionOptions read_attention_options(const std::string& function, const nb::kwargs& given);

// Returns results in the query's form.
class Results {
 public:
  explicit Results(nb::handle query) : api_(exchange_api_of(query)) {}
  nb::object give(const Tensor& tensor) const {
    return api_ == nullptr ? to_python(tensor) : give_exchanged(*api_, tensor);
  }

 private:
  const ExchangeApi* api_;
};

}  // namespace headway::python
