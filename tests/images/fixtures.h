// Helpers of the picture tests: the files in tests/data/pictures, and functions that compare pixels.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"
#include "tests/support/failure.h"

namespace carillon {

inline std::vector<std::uint8_t> picture_file(const std::string& name) {
  std::ifstream file(std::string(CARILLON_TEST_SAMPLES) + "/../pictures/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Returns the pixels [height][width][3] of `box`, which must be within the decoded part.
inline std::vector<std::uint8_t> rgb_of(const DecodedPart& part, const PictureBox& box) {
  std::vector<std::uint8_t> pixels;
  for (std::int64_t y = 0; y < box.height; ++y) {
    for (std::int64_t x = 0; x < box.width; ++x) {
      const std::uint8_t* pixel = part.row_at(box.row + y - part.row) + (box.column + x - part.column) * 4;
      pixels.insert(pixels.end(), pixel, pixel + 3);
    }
  }
  return pixels;
}

inline std::vector<std::uint8_t> rgb_of(const DecodedPart& whole) {
  return rgb_of(whole, {whole.row, whole.column, whole.height, whole.width});
}

/// Returns the file `jpeg` with an EXIF block for the orientation `orientation`.
inline std::vector<std::uint8_t> with_orientation(const std::string& jpeg, int orientation) {
  using namespace std::string_literals;
  const std::string entry = "\x01\x12\0\3\0\0\0\1\0"s + static_cast<char>(orientation) + "\0\0"s;
  const std::string exif =
      "\xFF\xE1\0\x22"
      "Exif\0\0MM\0*\0\0\0\x08\0\1"s +
      entry + "\0\0\0\0"s;
  const std::string file = jpeg.substr(0, 2) + exif + jpeg.substr(2);
  return {file.begin(), file.end()};
}

struct Difference {
  double mean = 0.0;
  int largest = 0;
};

inline Difference difference(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  EXPECT_EQ(a.size(), b.size());
  Difference found;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const int distance = std::abs(int{a[i]} - int{b[i]});
    found.mean += distance;
    found.largest = std::max(found.largest, distance);
  }
  found.mean /= static_cast<double>(a.size());
  return found;
}

/// Returns the CRC of a PNG chunk.
inline std::uint32_t png_crc(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(::crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

}  // namespace carillon
