// Compares decoded pictures with Pillow, and partial decoding with whole decoding. Also tests which files are rejected.
#include "carillon/images/decode.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>  // must precede jpeglib.h, which needs FILE

#include <jpeglib.h>

#include "src/images/picture.h"
#include "tests/images/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

constexpr std::int64_t width = 45, height = 33;
constexpr std::array names{
    "colour.jpg",     "full_chroma.jpg",     "grey.jpg",       "progressive.jpg",   "cmyk.jpg",
    "colour.png",     "transparent.png",     "palette.png",    "grey.png",          "bits.png",
    "deep.png",       "interlaced.png",      "grey_alpha.png", "palette_alpha.png", "grey_key.png",
    "deep_alpha.png", "interlaced_alpha.png"};

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

TEST_P(FormOfFile, ReturnsItsSizeWithoutDecoding) {
  const PictureInfo info = picture_info(file_);
  EXPECT_EQ(info.width, width);
  EXPECT_EQ(info.height, height);
  const std::string name = names[static_cast<std::size_t>(GetParam())];
  EXPECT_EQ(info.channels, name == "cmyk.jpg" ? 4 : name.starts_with("grey") || name.starts_with("bits") ? 1 : 3);
}

TEST_P(FormOfFile, APartEqualsThatPartOfTheWhole) {
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
    EXPECT_EQ(found.largest, 0) << box.row << " " << box.column;
  }
}

/// Channels of 16 bits are truncated to 8 bits before the picture is composited, as Pillow does.
TEST(Decode, TransparentPixelsAreCompositedAsByPillow) {
  const Colour background{.red = 200, .green = 30, .blue = 90};
  const std::vector<std::uint8_t> all = picture_file("composited.u8");
  std::span<const std::uint8_t> expected = all;
  for (const char* name : {"transparent.png", "grey_alpha.png", "palette_alpha.png", "grey_key.png", "deep_alpha.png",
                           "interlaced_alpha.png"}) {
    const std::vector<std::uint8_t> file = picture_file(name);
    EXPECT_TRUE(picture_info(file).has_transparency) << name;
    DecodedPart part;
    const PictureBox whole{0, 0, height, width};
    decode_part(file, {.needed = whole, .background = background}, part);
    const std::size_t bytes = static_cast<std::size_t>(width * height * 3);
    EXPECT_LE(difference(rgb_of(part, whole), expected.first(bytes)).largest, 1) << name;
    expected = expected.subspan(bytes);
  }
  EXPECT_TRUE(expected.empty());
  EXPECT_FALSE(picture_info(picture_file("palette.png")).has_transparency);
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

TEST_P(FormOfFile, AnyFlippedBitIsReportedAsDamage) {
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

/// Returns a JPEG file with chroma subsampling `across` x `down`, or an empty result if JPEG does not allow this
/// subsampling.
std::string sampled_jpeg(const std::vector<std::uint8_t>& rgb, std::int64_t rows, std::int64_t columns, int across,
                         int down) {
  if (across * down > 8) return {};
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&jpeg, &memory, &bytes);
  jpeg.image_height = static_cast<JDIMENSION>(rows);
  jpeg.image_width = static_cast<JDIMENSION>(columns);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg.comp_info[0].h_samp_factor = across;
  jpeg.comp_info[0].v_samp_factor = down;
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* line = const_cast<JSAMPROW>(rgb.data() + jpeg.next_scanline * static_cast<std::size_t>(columns) * 3);
    jpeg_write_scanlines(&jpeg, &line, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  std::free(memory);
  return file;
}

TEST(Decode, APartIsWhatTheWholeHasThereInEverySamplingAndSize) {
  constexpr std::int64_t rows = 149, columns = 203;
  std::vector<std::uint8_t> rgb;
  for (std::int64_t i = 0; i < rows * columns * 3; ++i) {
    rgb.push_back(static_cast<std::uint8_t>(128.0 + 120.0 * std::sin(static_cast<double>(i * (i % 3 + 2)) / 47.0)));
  }
  int count = 0;
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}}) {
    const std::string file = sampled_jpeg(rgb, rows, columns, across, down);
    for (const double scale : {1.0, 0.5, 0.25, 0.125}) {
      DecodedPart whole, part;
      const PartRequest all{.needed = {0, 0, rows, columns}, .vertical_scale = scale, .horizontal_scale = scale};
      decode_part(bytes_of(file), all, whole);
      for (const PictureBox& box : {PictureBox{40, 64, 48, 64}, {31, 77, 90, 101}, {0, 100, 20, 9}, {148, 0, 1, 203}}) {
        decode_part(bytes_of(file), {.needed = box, .vertical_scale = scale, .horizontal_scale = scale}, part);
        ASSERT_EQ(part.reduction, whole.reduction);
        const std::int64_t r = part.reduction, row = box.row / r, column = box.column / r;
        const PictureBox reduced{row, column, std::min((box.row + box.height + r - 1) / r, whole.height) - row,
                                 std::min((box.column + box.width + r - 1) / r, whole.width) - column};
        EXPECT_EQ(difference(rgb_of(part, reduced), rgb_of(whole, reduced)).largest, 0)
            << across << " x " << down << " at " << r << ", row " << box.row;
        ++count;
      }
    }
  }
  EXPECT_EQ(count, 8 * 4 * 4);
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

/// Each scan of a progressive file covers the whole picture. The first scan holds coarse means, and a malicious file
/// may repeat this scan many times.
TEST(Decode, MoreScansThanAreReadAreRefused) {
  const std::string scan = "\xFF\xDA", tables = "\xFF\xC4", end = "\xFF\xD9";
  const std::vector<std::uint8_t> own = picture_file("progressive.jpg");
  std::string file(own.begin(), own.end());
  const std::size_t first = file.find(scan), after = std::min(file.find(scan, first + 2), file.find(tables, first));
  const std::string means = file.substr(first, after - first);
  file.resize(file.size() - end.size());
  DecodedPart whole;
  decode_whole(bytes_of(file + means + end), whole);
  for (int i = 0; i < max_jpeg_scans; ++i) file += means;
  const Failure failure = failure_of([&] { decode_whole(bytes_of(file + end), whole); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("too many scans"));
}

class OrientedFile : public testing::TestWithParam<int> {
 protected:
  std::vector<std::uint8_t> file_ = picture_file(fmt::format("oriented_{}.jpg", GetParam()));
  const bool is_turned_ = GetParam() >= 5;
  const std::int64_t height_ = is_turned_ ? 21 : 13, width_ = is_turned_ ? 13 : 21;
};
INSTANTIATE_TEST_SUITE_P(Exif, OrientedFile, testing::Range(1, 9));

TEST_P(OrientedFile, IsDecodedAsPillowShowsIt) {
  const std::vector<std::uint8_t> all = picture_file("oriented.u8");
  const std::size_t bytes = 21 * 13 * 3;
  const PictureInfo info = picture_info(file_);
  EXPECT_EQ(info.orientation, GetParam());
  EXPECT_EQ(info.height, height_);
  EXPECT_EQ(info.width, width_);
  DecodedPart whole;
  decode_whole(file_, whole);
  ASSERT_EQ(whole.height, height_);
  ASSERT_EQ(whole.width, width_);
  const auto expected = std::span(all).subspan(static_cast<std::size_t>(GetParam() - 1) * bytes, bytes);
  const Difference found = difference(rgb_of(whole), expected);
  EXPECT_LE(found.mean, 0.1);
  EXPECT_LE(found.largest, 2);
}

TEST_P(OrientedFile, APartIsInTheCoordinatesOfThePictureAsItIsShown) {
  DecodedPart whole, part;
  decode_whole(file_, whole);
  for (const PictureBox& box : {PictureBox{0, 0, 1, 1}, {3, 2, 4, 9}, {12, 12, 1, 1}, {5, 0, 8, 13}}) {
    decode_part(file_, {.needed = box}, part);
    ASSERT_LE(part.row, box.row);
    ASSERT_LE(part.column, box.column);
    ASSERT_GE(part.row + part.height, box.row + box.height);
    ASSERT_GE(part.column + part.width, box.column + box.width);
    EXPECT_EQ(difference(rgb_of(part, box), rgb_of(whole, box)).largest, 0) << box.row << " " << box.column;
  }
}

/// The decoder must read a file with a malformed EXIF block, and ignore only the orientation.
TEST(Orientation, OfAMalformedExifBlockIsIgnored) {
  const std::vector<std::uint8_t> file = picture_file("oriented_6.jpg");
  const std::string text(file.begin(), file.end());
  const std::size_t exif = text.find("Exif"), header = exif + 6, entry = header + 8 + 2 + 12;
  ASSERT_NE(exif, text.npos);
  ASSERT_EQ(text[entry], '\x12');
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    std::string copy = text;
    copy.replace(at, bytes.size(), bytes);
    return copy;
  };
  using namespace std::string_literals;
  for (const std::string& bad :
       {changed(header, "XX"), changed(header + 4, "\xff\xff\xff\xff"s), changed(header + 4, "\xff\0\0\0"s),
        changed(header + 8, "\0\0"s), changed(entry + 2, "\2\0"s), changed(entry + 4, "\2\0\0\0"s),
        changed(entry + 8, "\0\0"s), changed(entry + 8, "\x09\0"s)}) {
    EXPECT_EQ(picture_info(bytes_of(bad)).orientation, 1);
    DecodedPart whole;
    decode_whole(bytes_of(bad), whole);
    EXPECT_EQ(whole.height, 13);
  }
  // The EXIF block declares more entries than it contains. The decoder must read the existing entries.
  EXPECT_EQ(picture_info(bytes_of(changed(header + 8, "\xff\xff"s))).orientation, 6);
}

struct Refused {
  std::string name, bytes, text;
};

class OtherFile : public testing::TestWithParam<Refused> {};

/// Returns the beginning of a PNG file of `side` x `side` pixels.
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
                    Refused{"strip", png_of(70000), "has 70000 x 70000 pixels; up to 100 million are read, and 65535"},
                    Refused{"bomb", png_of(60000), "has 60000 x 60000 pixels; up to 100 million are read"}),
    [](const auto& file) { return file.param.name; });

TEST(Decode, APictureWithoutPixelsIsRefused) {
  EXPECT_EQ(failure_of([] { picture_info(bytes_of(png_of(0))); }).code, ExitCode::data);
}

TEST(Encode, WrittenDataIsReadBack) {
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
