// write_pages DIRECTORY: the pages that the tests in Chromium look at.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/attention_record.h"

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
  write("hostile.html", headway::attention_html(headway_test::hostile_record()));
  write("large.html", headway::attention_html(headway_test::large_record(1000)));
  return 0;
}
