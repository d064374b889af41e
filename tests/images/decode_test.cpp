// Decoding against Pillow, parts against the whole, and what is refused.
#include "carillon/images/decode.h"

#include <gmock/gmock.h>

#include "carillon/images/picture.h"
#include "tests/images/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

constexpr std::int64_t width = 45, height = 33;
constexpr std::array names{"colour.jpg", "full_chroma.jpg", "grey.jpg",        "progressive.jpg",
                           "cmyk.jpg",   "colour.png",      "transparent.png", "palette.png",
                           "grey.png",   "bits.png",        "deep.png",        "interlaced.png"};

class FormOfFile : public testing::TestWithParam<int> {
 protected:
  std::vector<std::uint8_t> file_ = picture_file(names[static_cast<std::size_t>(GetParam())]);
};
INSTANTIATE_TEST_SUITE_P(Files, FormOfFile, testing::Range(0, static_cast<int>(names.size())), [](const auto& file) {
  std::string name = names[static_cast<std::size_t>(file.param)];
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST_P(FormOfFile, IsDecodedAsByPillow) {
  const std::vector<std::uint8_t> all = picture_file("decoded.u8");
  const auto expected = std::span(all).subspan(static_cast<std::size_t>(GetParam() * width * height * 3),
                                               static_cast<std::size_t>(width * height * 3));
  DecodedPart whole;
  decode_whole(file_, whole);
  ASSERT_EQ(whole.width, width);
  ASSERT_EQ(whole.height, height);
  const Difference found = difference(rgb_of(whole), expected);
  EXPECT_LE(found.mean, 0.1);
  EXPECT_LE(found.largest, 2);
}

TEST_P(FormOfFile, TellsItsSizeWithoutDecoding) {
  const PictureInfo info = picture_info(file_);
  EXPECT_EQ(info.width, width);
  EXPECT_EQ(info.height, height);
  const std::string name = names[static_cast<std::size_t>(GetParam())];
  EXPECT_EQ(info.channels, name == "cmyk.jpg" ? 4 : name.starts_with("grey") || name.starts_with("bits") ? 1 : 3);
}

/// Chroma of half the size is interpolated over what is there, so that a part's edges may differ a little.
TEST_P(FormOfFile, APartIsWhatTheWholeHasThere) {
  DecodedPart whole, part;
  decode_whole(file_, whole);
  for (const PictureBox& box :
       {PictureBox{0, 0, 1, 1}, {32, 44, 1, 1}, {5, 7, 20, 30}, {16, 16, 16, 16}, {17, 3, 9, 41}}) {
    decode_part(file_, {.needed = box}, part);
    ASSERT_LE(part.row, box.row);
    ASSERT_LE(part.column, box.column);
    ASSERT_GE(part.row + part.height, box.row + box.height);
    ASSERT_GE(part.column + part.width, box.column + box.width);
    const Difference found = difference(rgb_of(part, box), rgb_of(whole, box));
    const bool has_coarse_chroma = GetParam() == 0 || GetParam() == 3;
    EXPECT_LE(found.mean, has_coarse_chroma ? 3.0 : 0.0) << box.row << " " << box.column;
  }
}

TEST_P(FormOfFile, ACutFileIsDamaged) {
  DecodedPart whole;
  for (const double share : {0.5, 0.9}) {
    std::vector<std::uint8_t> cut = file_;
    cut.resize(static_cast<std::size_t>(static_cast<double>(cut.size()) * share));
    const Failure failure = failure_of([&] { decode_whole(cut, whole); });
    EXPECT_EQ(failure.code, ExitCode::data) << share;
    EXPECT_THAT(failure.text, HasSubstr("is damaged")) << share;
  }
}

TEST_P(FormOfFile, WhateverBitIsFlippedNothingButDamageIsTold) {
  DecodedPart whole;
  for (std::size_t i = 0; i < file_.size(); i += 3) {
    std::vector<std::uint8_t> flipped = file_;
    flipped[i] ^= static_cast<std::uint8_t>(1 << i % 8);
    try {
      decode_whole(flipped, whole);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    }
  }
}

TEST(Decode, ALargeJpegComesSmallerWhereItIsReducedAnyway) {
  Picture picture{.height = 240, .width = 320, .channels = 3, .pixels = std::vector<std::uint8_t>(240 * 320 * 3, 77)};
  const std::string file = encode_jpeg(picture, 90);
  const PictureBox box{40, 80, 160, 160};
  DecodedPart part;
  const auto reduction = [&](double scale) {
    decode_part(bytes_of(file), {.needed = box, .vertical_scale = scale, .horizontal_scale = scale}, part);
    EXPECT_LE(part.row * part.reduction, box.row);
    EXPECT_GE((part.row + part.height) * part.reduction, box.row + box.height);
    return part.reduction;
  };
  EXPECT_EQ(reduction(1.0), 1);
  EXPECT_EQ(reduction(0.51), 1);
  EXPECT_EQ(reduction(0.5), 2);
  EXPECT_EQ(reduction(0.2), 4);
  EXPECT_EQ(reduction(0.01), 8);
}

struct Refused {
  std::string name, bytes, text;
};

class OtherFile : public testing::TestWithParam<Refused> {};

/// The start of a PNG file of that many pixels.
std::string png_of(std::uint32_t side) {
  const std::vector<std::uint8_t> own = picture_file("colour.png");
  std::string file(own.begin(), own.end());
  for (const std::size_t at : {16, 20}) {
    for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>(side >> (24 - 8 * i));
  }
  const std::uint32_t crc = png_crc({reinterpret_cast<const std::uint8_t*>(file.data()) + 12, 17});
  for (std::size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  return file;
}

TEST_P(OtherFile, IsRefusedWithWhatItIs) {
  DecodedPart whole;
  const Failure failure = failure_of([&] { decode_whole(bytes_of(GetParam().bytes), whole); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr(GetParam().text));
  EXPECT_TRUE(whole.pixels.empty());
}
INSTANTIATE_TEST_SUITE_P(
    Files, OtherFile,
    testing::Values(Refused{"nothing", "", "is empty"}, Refused{"text", "hello", "neither a JPEG nor a PNG file"},
                    Refused{"gif", "GIF89a....", "looks like a GIF file"},
                    Refused{"webp", "RIFF....WEBP", "looks like a WebP file"},
                    Refused{"heif",
                            std::string("\0\0\0\x18"
                                        "ftypheic....",
                                        16),
                            "looks like a HEIF"},
                    Refused{"jpeg_start", "\xFF\xD8\xFF\xE0", "is damaged"},
                    Refused{"bomb", png_of(60000), "has 60000 x 60000 pixels; up to 100 million are read"}),
    [](const auto& file) { return file.param.name; });

TEST(Decode, APictureWithoutPixelsIsRefused) {
  EXPECT_EQ(failure_of([] { picture_info(bytes_of(png_of(0))); }).code, ExitCode::data);
}

TEST(Encode, WhatIsWrittenIsReadAgain) {
  const std::vector<std::uint8_t> file = picture_file("colour.png");
  DecodedPart whole, again;
  decode_whole(file, whole);
  const Picture picture{.height = height, .width = width, .channels = 3, .pixels = rgb_of(whole)};
  decode_whole(bytes_of(encode_png(picture)), again);
  EXPECT_EQ(difference(rgb_of(again), picture.pixels).largest, 0);
  decode_whole(bytes_of(encode_jpeg(picture, 95)), again);
  EXPECT_LE(difference(rgb_of(again), picture.pixels).mean, 4.0);
  EXPECT_LT(encode_jpeg(picture, 50).size(), encode_jpeg(picture, 95).size());
}

}  // namespace
}  // namespace carillon
