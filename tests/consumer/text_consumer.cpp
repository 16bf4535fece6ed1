// Uses the text library as its user would, and fails when a result is wrong.
#include <headway/error.h>
#include <headway/translation_scores.h>
#include <headway/translator.h>

#include <cmath>
#include <iostream>

int main() {
  bool right = std::abs(headway::bleu({"a cat sat on a mat"}, {"a cat sat on a mat"}).score - 100.0) < 1e-9;
  try {
    headway::Translator("no/such/model");
    right = false;
  } catch (const headway::Error&) {
  }
  std::cout << "headway_text: " << (right ? "right" : "WRONG") << '\n';
  return right ? 0 : 1;
}
