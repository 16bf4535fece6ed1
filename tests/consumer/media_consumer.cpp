// Uses the media library as its user would, and fails when a result is wrong.
#include <headway/audio.h>
#include <headway/error.h>
#include <headway/image.h>

#include <iostream>
#include <vector>

int main() {
  const headway::Tensor grey = headway::Tensor::from({0.0f, 1.0f, 1.0f, 0.0f}, {2, 2, 1});
  const headway::Picture again = headway::parse_picture(headway::encode_png(grey), "four.png", 1);
  bool right = again.pixels.to_vector() == grey.to_vector();
  right &= headway::log_mel(headway::Tensor::zeros({16000})).shape() == headway::Shape({80, 100});
  try {
    headway::read_sound("no/such.wav");
    right = false;
  } catch (const headway::FileError&) {
  }
  std::cout << "headway_media: " << (right ? "right" : "WRONG") << '\n';
  return right ? 0 : 1;
}
