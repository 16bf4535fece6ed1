// SequenceRecommender.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/text/text_bindings.h"
#include "headway/sequence_recommender.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;
using Items = std::vector<std::int64_t>;

// One history, or a list of them; every history is a list, a tuple or a NumPy array of integers.
struct Histories {
  std::vector<Items> histories;
  bool is_one = false;
};

bool is_number(nb::handle value) { return PyIndex_Check(value.ptr()) != 0 && !nb::hasattr(value, "__len__"); }

Items read_history(const std::string& argument, nb::handle value) {
  if (nb::isinstance<nb::str>(value) || !nb::hasattr(value, "__iter__")) refuse(argument, value, "a list of items");
  Items items;
  for (const nb::handle item : nb::iter(value)) {
    const std::string place = argument + "[" + std::to_string(items.size()) + "]";
    std::int64_t number = 0;
    if (!is_number(item) || !nb::try_cast(nb::int_(nb::borrow(item)), number)) refuse(place, item, "an item's number");
    items.push_back(number);
  }
  return items;
}

Histories read_histories(const std::string& argument, nb::handle value) {
  if (nb::isinstance<nb::str>(value) || !nb::hasattr(value, "__iter__")) {
    refuse(argument, value, "a list of items, or a list of such lists");
  }
  bool is_one = true;
  for (const nb::handle first : nb::iter(value)) {
    is_one = is_number(first);
    break;
  }
  Histories result = {.histories = {}, .is_one = is_one};
  if (is_one) {
    result.histories.push_back(read_history(argument, value));
    return result;
  }
  for (const nb::handle history : nb::iter(value)) {
    result.histories.push_back(read_history(argument + "[" + std::to_string(result.histories.size()) + "]", history));
  }
  return result;
}

nb::object give(const Recommendations& found) {
  const nb::object item_type = result_type("RecommendedItem");
  nb::list items, attention;
  for (const RecommendedItem& item : found.items) {
    items.append(call_python(item_type, item.item, item.score, item.probability, item.shares));
  }
  for (const Tensor& layer : found.attention) attention.append(nb::cast(layer).attr("numpy")());
  return call_python(result_type("Recommendations"), items, found.read, attention, found.notes.describe());
}

nb::object recommend(const SequenceRecommender& self, Array histories, std::int64_t count, bool exclude_seen,
                     const Items& candidates, bool sources, std::int64_t batch_items) {
  const Histories given = read_histories("recommend: histories", histories);
  RecommendOptions options;
  options.count = count;
  options.exclude_seen = exclude_seen;
  options.candidates = candidates;
  options.sources = sources;
  options.batch_items = batch_items;
  const std::vector<Recommendations> found = without_lock([&] { return self.recommend_all(given.histories, options); });
  if (given.is_one) return give(found[0]);
  nb::list results;
  for (const Recommendations& one : found) results.append(give(one));
  return results;
}

nb::object scores(const SequenceRecommender& self, Array histories, std::int64_t batch_items) {
  const Histories given = read_histories("scores: histories", histories);
  const Tensor values = without_lock([&] { return self.scores(given.histories, batch_items); });
  return nb::cast(given.is_one ? values[0] : values).attr("numpy")();
}

}  // namespace

void bind_recommender(nb::module_& module) {
  nb::class_<SequenceRecommender>(module, "SequenceRecommender",
                                  "The next items of a history, by a decoder whose tokens are items.")
      .def(
          "__init__",
          [](SequenceRecommender* self, const TransformerModel& model, const Items& counts) {
            new (self) SequenceRecommender(model, counts);
          },
          "model"_a, "counts"_a = Items(),
          "A model in evaluation mode, and how often training met each token where that is known.")
      .def(
          "__init__",
          [](SequenceRecommender* self, Array directory, Array device, Array dtype) {
            const std::filesystem::path path = read_path("SequenceRecommender: directory", directory);
            TaskOptions options;
            options.device = read_device("SequenceRecommender: device", device);
            options.dtype = read_optional_dtype("SequenceRecommender: dtype", dtype);
            without_lock([&] { new (self) SequenceRecommender(path, options); });
          },
          "directory"_a, "device"_a = "cpu", "dtype"_a.none() = nb::none(),
          "A model directory. dtype converts the parameters; by default to float32.")
      .def("recommend", &recommend, "histories"_a, nb::kw_only(), "count"_a = 10, "exclude_seen"_a = true,
           "candidates"_a = Items(), "sources"_a = true, "batch_items"_a = 0,
           "headway.Recommendations after a history, which is a list of items with the newest last, or a list of them "
           "for a list of histories. candidates: only these items. sources: with the attention, and the share of each "
           "past item.")
      .def("scores", &scores, "histories"_a, nb::kw_only(), "batch_items"_a = 0,
           "Logits of all tokens after each history: a float32 NumPy array [histories, items + 1], or [items + 1] of "
           "one history. Column 0 is padding.")
      .def(
          "save",
          [](const SequenceRecommender& self, Array directory, Array dtype) {
            self.save(read_path("save: directory", directory), read_optional_dtype("save: dtype", dtype));
          },
          "directory"_a, "dtype"_a.none() = nb::none(), "Writes a model directory, with items.json for the counts.")
      .def_prop_ro("items", &SequenceRecommender::items, "Items are 1 .. items.")
      .def_prop_ro("max_length", &SequenceRecommender::max_length, "The most items of a history that are read.")
      .def_prop_ro(
          "counts", [](const SequenceRecommender& self) { return self.counts(); },
          "How often training met each token; empty where that is not known.")
      .def_prop_ro(
          "model", [](const SequenceRecommender& self) { return self.model(); }, "The model, shared.");
}

}  // namespace headway::python
