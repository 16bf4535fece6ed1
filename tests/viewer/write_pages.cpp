// write_pages DIRECTORY: the pages that the tests in Chromium look at.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "report/plot.h"
#include "support/attention_record.h"
#include "support/media_record.h"

namespace {

// A decoder alone reads the text that it goes on with: queries and keys are the same tokens.
headway::AttentionRecord decoder_alone(const headway::AttentionRecord& record) {
  headway::AttentionRecord decoder = {"Das Tier überquerte", " die Straße nicht, weil es zu müde war.", "", {}};
  decoder.parts.push_back(record.parts[1]);
  decoder.parts[0].keys = decoder.parts[0].queries;
  return decoder;
}

std::string plot() {
  headway::internal::History history;
  for (int step = 1; step <= 200; ++step) {
    headway::StepReport report;
    report.step = step;
    report.loss = 1.0 + 8.0 / step;
    report.learning_rate = step * 1e-5;
    report.layers = {{"shared", 0.5}, {"encoder.layers.0", 0.1 + 1.0 / step}, {"decoder.layers.0", 3.0}};
    history.add(report);
  }
  return plot_html(history, {{.step = 100, .loss = 2.0, .bleu = 10.0, .directions = {8.0, 12.0}}},
                   {{.reverse = false, .from = "en", .to = "de", .tag = "deu"},
                    {.reverse = true, .from = "de", .to = "en", .tag = "eng"}});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: write_pages DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path directory = arguments[1];
  std::filesystem::create_directories(directory);
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(directory / name, std::ios::binary) << content;
  };
  const headway::AttentionRecord animal = headway_test::animal_record();
  write("animal.html", headway::attention_html(animal));
  write("animal.json", headway::attention_json(animal));
  write("animal.svg", headway::attention_svg(animal, {.part = "encoder"}));
  write("head.svg", headway::attention_svg(animal, {.part = "cross", .head = 2}));
  headway::AttentionRecord encoder = animal;  // of a model of one part
  encoder.parts.resize(1);
  encoder.target = encoder.language = "";
  write("encoder.html", headway::attention_html(encoder));
  write("decoder.html", headway::attention_html(decoder_alone(animal)));
  write("plot.html", plot());
  write("hostile.html", headway::attention_html(headway_test::hostile_record()));
  write("large.html", headway::attention_html(headway_test::large_record(1000)));
  write("picture.html", headway::attention_html(headway_test::picture_record()));
  write("sound.html", headway::attention_html(headway_test::sound_record()));
  write("video.html", headway::attention_html(headway_test::video_record()));
  write("list.html", headway::attention_html(headway_test::list_record()));
  return 0;
}
