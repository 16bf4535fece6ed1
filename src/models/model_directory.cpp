#include "models/model_directory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "headway/ops.h"
#include "models/tensor_problems.h"

namespace headway::inline v0::internal {

// ---- TensorSearch ----

std::string TensorSearch::candidate(const std::string& name, bool in_head) const {
  std::vector<std::string> names;
  for (const std::string& prefix : family_.prefixes) names.push_back(prefix + name);
  names.insert(in_head ? names.begin() : names.end(), name);
  for (const std::string& candidate : names) {
    if (files_.contains(candidate)) return candidate;
  }
  // As the first conversions of BERT have them.
  for (const auto& [ending, old] : {std::pair{"LayerNorm.weight", "gamma"}, std::pair{"LayerNorm.bias", "beta"}}) {
    if (!name.ends_with(ending)) continue;
    for (std::string& candidate : names) {
      candidate.replace(candidate.rfind('.') + 1, std::string::npos, old);
      if (files_.contains(candidate)) return candidate;
    }
  }
  return "";
}

std::string TensorSearch::find(const std::string& name, bool in_head) {
  std::string found = candidate(name, in_head);
  if (!found.empty()) used_.insert(found);
  return found;
}

bool TensorSearch::is_within(const std::string& file_name, const std::string& module) const {
  const auto begins = [&](const std::string& start) {
    return file_name.starts_with(start) && (file_name.size() == start.size() || file_name[start.size()] == '.');
  };
  return begins(module) || std::any_of(family_.prefixes.begin(), family_.prefixes.end(),
                                       [&](const std::string& prefix) { return begins(prefix + module); });
}

namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto bytes = static_cast<std::size_t>(a.element_count()) * item_size(a.dtype());
  return bytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0;
}

constexpr std::string_view kPatches = "encoder.front.projection.weight";

// Reads the parameters of one plan.
class ParameterReader {
 public:
  ParameterReader(const ModelFiles& files, bool new_head, ModelPlan& plan)
      : files_(files), new_head_(new_head), plan_(plan), search_(files, *plan.family) {}

  std::map<std::string, Tensor> read(const std::string& where) {
    adapt();
    for (const FileTensor& tensor : file_tensors(plan_.options, *plan_.family)) {
      if (new_head_ && tensor.in_head) continue;
      read_one(tensor);
    }
    check_copies(where);
    check_positions(where);
    for (const std::string& name : files_.names()) {
      if (!search_.is_used(name) && !is_ignored(name)) problems_.unexpected(name, files_.get(name));
    }
    problems_.check_none(where);
    return std::move(parameters_);
  }

 private:
  // Follows the files where they differ from the config in what is harmless.
  void adapt() {
    TransformerModelOptions& options = plan_.options;
    // A bare model in the files, whatever the architectures say.
    if (!new_head_ && options.kind == ModelKind::encoder && options.head.kind != HeadKind::none && !has_head() &&
        has_bare_names()) {
      options = plan_.family->read(plan_.config, HeadKind::none);
    }
    const bool may_lack_pooler = options.head.kind == HeadKind::none;
    if (options.pooler && may_lack_pooler && !has_parameter("pooler.weight")) options.pooler = false;
    if (options.head.tied && !new_head_) untie_where_different();
  }

  const std::vector<FileTensor>& expected() {
    expected_ = file_tensors(plan_.options, *plan_.family);
    return expected_;
  }
  bool has_parameter(const std::string& parameter) {
    for (const FileTensor& tensor : expected()) {
      if (tensor.parameter == parameter) return search_.contains(tensor.pieces.front(), tensor.in_head);
    }
    return false;
  }
  bool has_head() {
    const std::vector<FileTensor>& all = expected();
    return std::any_of(all.begin(), all.end(), [&](const FileTensor& tensor) {
      return tensor.in_head && search_.contains(tensor.pieces.front(), true);
    });
  }
  // Whether the embedding, or what is in its place, has no prefix.
  bool has_bare_names() {
    const std::vector<FileTensor>& all = expected();
    return std::any_of(all.begin(), all.end(), [&](const FileTensor& tensor) {
      const bool begins = tensor.parameter == "embedding.weight" || tensor.parameter == kPatches;
      return begins && files_.contains(tensor.pieces.front());
    });
  }

  void untie_where_different() {
    TransformerModelOptions untied = plan_.options;
    untied.head.tied = false;
    std::string output;
    std::string embedding;
    for (const FileTensor& tensor : file_tensors(untied, *plan_.family)) {
      if (tensor.parameter == "head.output.weight") output = search_.find(tensor.pieces.front(), true);
      if (tensor.parameter == "embedding.weight") embedding = search_.find(tensor.pieces.front(), false);
    }
    if (output.empty() || embedding.empty()) return;
    const Tensor& tensor = files_.get(output);
    if (tensor.shape() == files_.get(embedding).shape() && !same_bytes(tensor, files_.get(embedding))) {
      plan_.options = untied;
    }
  }

  void read_one(const FileTensor& tensor) {
    std::vector<Tensor> pieces;
    for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
      std::string name = search_.find(tensor.pieces[i], tensor.in_head);
      if (name.empty() && tensor.parameter == "embedding.weight") name = embedding_copy();
      if (name.empty()) {
        if (is_optional(tensor)) return;
        const bool with_prefix = !tensor.in_head && plan_.options.head.kind != HeadKind::none;
        problems_.missing((with_prefix ? plan_.family->prefixes.front() : "") + tensor.pieces[i],
                          tensor.piece_shapes[i]);
        continue;
      }
      const Tensor piece = files_.get(name);
      if (piece.shape() == tensor.piece_shapes[i] && is_floating(piece.dtype())) {
        pieces.push_back(piece);
      } else {
        problems_.wrong(name, piece, expected_text(tensor, tensor.piece_shapes[i]));
      }
    }
    if (pieces.size() != tensor.pieces.size()) return;
    const Tensor whole = pieces.size() == 1 ? pieces.front() : concat(pieces, 0);
    if (tensor.parts == 1) {
      parameters_[tensor.parameter] = tensor.transposed ? whole.transpose(0, 1).contiguous() : whole.view(tensor.shape);
      return;
    }
    const std::int64_t rows = tensor.shape[0];
    parameters_[tensor.parameter] = (tensor.transposed ? whole.transpose(0, 1) : whole)
                                        .slice(0, tensor.part * rows, (tensor.part + 1) * rows)
                                        .contiguous();
  }

  // What a config decides about a shape, for messages.
  std::string expected_text(const FileTensor& tensor, const Shape& shape) const {
    const bool has_vocabulary = tensor.parameter == "embedding.weight" || tensor.parameter == "head.output.weight";
    return "floats " + shape.to_string() +
           (has_vocabulary && shape[0] == plan_.options.vocab_size ? " by vocab_size and the width" : "");
  }

  // Buffers that files may leave out, and what a new head needs.
  bool is_optional(const FileTensor& tensor) const {
    if (tensor.parameter == "head.output.bias" && !plan_.options.head.trained_bias) return true;
    return new_head_ && tensor.parameter.starts_with("pooler.");
  }

  std::string embedding_copy() {
    for (const std::string& copy : plan_.family->embedding_copies) {
      const std::string name = search_.find(copy, false);
      if (!name.empty()) return name;
    }
    return "";
  }

  void check_copies(const std::string& where) {
    const auto embedding = parameters_.find("embedding.weight");
    for (const std::string& copy : plan_.family->embedding_copies) {
      const std::string name = search_.find(copy, false);
      if (name.empty() || embedding == parameters_.end()) continue;
      check(same_bytes(files_.get(name), embedding->second), where, ": tensor ", name,
            " differs from the other embeddings, and only one for source and target is supported");
    }
  }

  // Stored positions must be the sinusoids that the model makes by itself.
  void check_positions(const std::string& where) {
    for (const char* stack : {"encoder", "decoder"}) {
      const StackOptions& options = stack[0] == 'e' ? plan_.options.encoder : plan_.options.decoder;
      if (options.positions != PositionKind::sinusoidal) continue;
      const std::string name = search_.find(std::string(stack) + ".embed_positions.weight", false);
      if (name.empty()) continue;
      const Tensor tensor = files_.get(name);
      const Shape shape = {options.max_positions, options.width};
      if (tensor.shape() != shape || !is_floating(tensor.dtype())) {
        problems_.wrong(name, tensor, "floats " + shape.to_string());
        continue;
      }
      const Tensor stored = tensor.to(DType::float32).contiguous();
      const Tensor table = sinusoidal_positions(shape[0], shape[1], options.sinusoid, DType::float32);
      const double tolerance = item_size(tensor.dtype()) == 2 ? 1e-2 : 1e-4;
      bool same = true;
      for (std::int64_t i = 0; i < table.element_count() && same; ++i) {
        same = std::abs(stored.data<float>()[i] - table.data<float>()[i]) <= tolerance;
      }
      check(same, where, ": tensor ", name, " holds other positions than sines and cosines, which is not supported");
    }
  }

  // Buffers, and heads and poolers that this model does without.
  bool is_ignored(const std::string& name) {
    const std::vector<std::string>& ignored = plan_.family->ignored;
    const bool buffer = std::any_of(ignored.begin(), ignored.end(),
                                    [&](const std::string& part) { return name.find(part) != std::string::npos; });
    if (buffer) return true;
    const bool drops_heads = new_head_ || plan_.options.head.kind == HeadKind::none;
    if (modules_to_drop_.empty()) {
      TransformerModelOptions other = plan_.options;
      for (const HeadKind kind : {HeadKind::language_model, HeadKind::sequence, HeadKind::tokens, HeadKind::span}) {
        other.head.kind = kind;
        for (const TensorName& entry : plan_.family->names(other)) {
          if (entry.ours == "pooler" || (drops_heads && entry.ours.starts_with("head."))) {
            modules_to_drop_.insert(entry.theirs);
          }
        }
      }
    }
    return std::any_of(modules_to_drop_.begin(), modules_to_drop_.end(),
                       [&](const std::string& module) { return search_.is_within(name, module); });
  }

  const ModelFiles& files_;
  bool new_head_;
  ModelPlan& plan_;
  TensorSearch search_;
  TensorProblems problems_;
  std::vector<FileTensor> expected_;
  std::set<std::string> modules_to_drop_;
  std::map<std::string, Tensor> parameters_;
};

}  // namespace

std::map<std::string, Tensor> read_parameters(const std::string& where, const ModelFiles& files, bool new_head,
                                              ModelPlan& plan) {
  return ParameterReader(files, new_head, plan).read(where);
}

}  // namespace headway::inline v0::internal
