#include <gtest/gtest.h>

#include "base/npy.h"

namespace {

using headway::internal::npy_header;

TEST(Npy, HeaderSaysTheShape) {
  const std::string header = npy_header({2, 384});
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(header.size() % 64, 0u);
  const auto length = static_cast<unsigned char>(header[8]) + 256u * static_cast<unsigned char>(header[9]);
  EXPECT_EQ(header.size(), length + 10u);
  EXPECT_EQ(header.substr(10, 62), "{'descr': '<f4', 'fortran_order': False, 'shape': (2,384,), } ");
  EXPECT_EQ(header.back(), '\n');
}

}  // namespace
