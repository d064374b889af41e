// Tests of pictures in formats other than JPEG and PNG, compared with Pillow.
#include "src/data/convert/picture_file.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <initializer_list>

#include "tests/data/fixtures.h"
#include "tests/support/failure.h"

namespace carillon {
namespace {

using testing::HasSubstr;

constexpr std::int64_t width = 21, height = 13;
constexpr std::size_t golden_bytes = width * height * 3;

std::string picture(const std::string& name) { return read_bytes(sample_path("../pictures/" + name)); }

DecodedPart decoded(const std::string& file) {
  DecodedPart whole;
  decode_whole({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, whole);
  return whole;
}

struct Converted {
  std::string name;
  int largest = 0;  ///< largest accepted difference of a pixel's value
};

/// The files, in the order in which converted.u8 has their pixels.
const std::vector<Converted> files{{"colour.tif"},     {"alpha.tif", 1},     {"deep_grey.tif"}, {"oriented_6.tif"},
                                   {"oriented_7.tif"}, {"lossless.webp", 1}, {"lossy.webp", 2}, {"oriented_8.webp"},
                                   {"palette.gif"},    {"transparent.gif"},  {"animated.gif"}};

TEST(PictureFile, OfAnotherFormatBecomesThePngThatPillowShows) {
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;  // another test checks that these formats are rejected
  const std::string all = picture("converted.u8");
  ASSERT_EQ(all.size(), files.size() * golden_bytes);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [name, largest] = files[i];
    const std::string png = as_jpeg_or_png(picture(name), name, {});
    ASSERT_TRUE(png.starts_with("\x89PNG")) << name;
    const DecodedPart whole = decoded(png);
    const bool is_turned = name.starts_with("oriented");
    ASSERT_EQ(whole.height, is_turned ? width : height) << name;
    int found = 0;
    for (std::size_t j = 0; j < golden_bytes; ++j) {
      const int expected = static_cast<std::uint8_t>(all[i * golden_bytes + j]);
      found = std::max(found, std::abs(whole.pixels[j / 3 * 4 + j % 3] - expected));
    }
    EXPECT_LE(found, largest) << name;
  }
}

TEST(PictureFile, OfAnotherFormatIsCompositedOnTheBackground) {
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;  // another test checks that these formats are rejected
  for (const char* name : {"alpha.tif", "lossless.webp"}) {
    const DecodedPart whole = decoded(as_jpeg_or_png(picture(name), name, {.red = 1, .green = 2, .blue = 3}));
    EXPECT_EQ(whole.pixels[0], 1) << name;  // the first column is transparent
    EXPECT_EQ(whole.pixels[1], 2) << name;
    EXPECT_EQ(whole.pixels[2], 3) << name;
  }
}

TEST(PictureFile, InJpegPngOrAnUnknownFormatIsLeftAsItIs) {
  for (const std::string& file :
       {picture("colour.jpg"), picture("transparent.png"), std::string("text"), std::string()}) {
    EXPECT_EQ(as_jpeg_or_png(file, "name.tif", {}), file);
  }
}

TEST(PictureFile, ThatIsNotReadIsRefusedWithTheCommandThatConvertsIt) {
  const auto refusal = [](const std::string& file, const std::string& path) {
    const Failure failure = failure_of([&] { as_jpeg_or_png(file, path, {}); });
    EXPECT_EQ(failure.code, ExitCode::data);
    return failure.text;
  };
  const std::string box(4, '\0');
  EXPECT_EQ(refusal(box + "ftypheic....", "a/it's one.HEIC"),
            "is a HEIF file: this format is not supported; convert it first: heif-convert 'a/it'\\''s one.HEIC' "
            "'a/it'\\''s one.png'");
  EXPECT_THAT(refusal(box + "ftypavif....", "b.avif"), HasSubstr("AVIF file: this format is not supported; convert it "
                                                                 "first: heif-convert b.avif b.png"));
  EXPECT_EQ(refusal("\xFF\x4F\xFF\x51....", "c.jp2").substr(0, 24), "is a JPEG 2000 file: thi");
  if (CARILLON_HAS_PICTURE_FORMATS != 0) return;
  for (const Converted& converted : files) {
    EXPECT_THAT(refusal(picture(converted.name), converted.name),
                HasSubstr("convert it first: mogrify -format png " + converted.name));
  }
}

TEST(PictureFile, ThatIsCutOrChangedIsRefusedOrDecoded) {
  for (const Converted& converted : files) {
    const std::string file = picture(converted.name);
    const std::size_t header = file.size() / 4;
    EXPECT_EQ(failure_of([&] { as_jpeg_or_png(file.substr(0, header), converted.name, {}); }).code, ExitCode::data)
        << converted.name;
    for (std::size_t i = 0; i < file.size(); i += 3) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
      try {
        as_jpeg_or_png(changed, converted.name, {});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      }
    }
  }
}

/// The decoder must reject the size before it allocates memory for the pixels.
TEST(PictureFile, WithTooManyPixelsIsRefused) {
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;
  std::string gif = picture("palette.gif");
  gif.replace(6, 4, "\x60\xEA\x60\xEA");
  EXPECT_THAT(failure_of([&] { as_jpeg_or_png(gif, "a.gif", {}); }).text, HasSubstr("has 60000 x 60000 pixels"));
}

/// Returns the bytes of numbers in little-endian order. Each pair is a number and its size in bytes.
std::string little(std::initializer_list<std::pair<std::int64_t, int>> numbers) {
  std::string bytes;
  for (auto [number, count] : numbers) {
    for (int i = 0; i < count; ++i, number >>= 8) bytes += static_cast<char>(number);
  }
  return bytes;
}

/// Returns the RGB pixels of colour.tif.
std::string colours() { return picture("converted.u8").substr(0, golden_bytes); }

std::string rgb(const std::string& png) {
  const DecodedPart whole = decoded(png);
  std::string pixels;
  for (std::int64_t i = 0; i < whole.height * whole.width; ++i) {
    pixels.append(reinterpret_cast<const char*>(whole.pixels.data()) + i * 4, 3);
  }
  return pixels;
}

/// Returns a BMP file with a header of 40 bytes. `more`: the masks or the palette.
std::string bmp(std::int64_t columns, std::int64_t rows, int bits, int compression, const std::string& more,
                const std::string& pixels) {
  const auto offset = static_cast<std::int64_t>(54 + more.size());
  return "BM" +
         little({{offset + std::ssize(pixels), 4},
                 {0, 4},
                 {offset, 4},
                 {40, 4},
                 {columns, 4},
                 {rows, 4},
                 {1, 2},
                 {bits, 2},
                 {compression, 4},
                 {0, 4},
                 {0, 8},
                 {0, 4},
                 {0, 4}}) +
         more + pixels;
}

TEST(PictureFile, InBmpIsRead) {
  const std::string expected = colours();
  std::string bottom_up, top_down;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const char* below = expected.data() + ((height - 1 - y) * width + x) * 3;
      bottom_up += {below[2], below[1], below[0]};
      const char* pixel = expected.data() + (y * width + x) * 3;
      top_down += {'\x7F', pixel[0], pixel[1], pixel[2]};
    }
    bottom_up += std::string(1, '\xEE');  // pads a row of 63 bytes to 64
  }
  EXPECT_EQ(rgb(as_jpeg_or_png(bmp(width, height, 24, 0, "", bottom_up), "a.bmp", {})), expected);
  const std::string masks = little({{0xFF00, 4}, {0xFF0000, 4}, {0xFF000000, 4}});
  EXPECT_EQ(rgb(as_jpeg_or_png(bmp(width, -height, 32, 3, masks, top_down), "a.bmp", {})), expected);
  // Pixels of 4 bits, with a palette of red, green and blue. The file has two rows of three pixels, and the lower row
  // comes first.
  const std::string palette = little({{0xFF0000, 4}, {0x00FF00, 4}, {0x0000FF, 4}}) + std::string(52, '\0');
  const std::string red("\xFF\0\0", 3), green("\0\xFF\0", 3), blue("\0\0\xFF", 3);
  const std::string picture = blue + blue + red + red + green + blue;
  const std::string rows = little({{0x01, 1}, {0x20, 3}, {0x22, 1}, {0x00, 3}});
  EXPECT_EQ(rgb(as_jpeg_or_png(bmp(3, 2, 4, 0, palette, rows), "a.bmp", {})), picture);
  // The same picture as run lengths: three single pixels, end of the row, a run of two pixels, a run of one pixel, end
  // of the picture.
  const std::string runs =
      little({{0, 1}, {3, 1}, {0x01, 1}, {0x20, 1}, {0, 2}, {2, 1}, {0x22, 1}, {1, 1}, {0, 1}, {0, 1}, {1, 1}});
  EXPECT_EQ(rgb(as_jpeg_or_png(bmp(3, 2, 4, 2, palette, runs), "a.bmp", {})), picture);
  // Each colour has 5 bits, so 31 is its maximum.
  EXPECT_EQ(rgb(as_jpeg_or_png(bmp(1, 1, 16, 0, "", little({{0x7FFF, 2}, {0, 2}})), "a.bmp", {})), "\xFF\xFF\xFF");
  EXPECT_THAT(
      failure_of([&] { as_jpeg_or_png(bmp(1, 1, 24, 4, "", "...."), "a.bmp", {}); }).text,
      HasSubstr("is a BMP file: 24 bits a pixel with compression 4 are not supported; convert it first: mogrify "
                "-format png a.bmp"));
}

TEST(PictureFile, InPnmIsRead) {
  const std::string expected = colours();
  const std::string size = fmt::format("{} {}\n", width, height);
  EXPECT_EQ(rgb(as_jpeg_or_png("P6\n# made by a test\n" + size + "255\n" + expected, "a.ppm", {})), expected);
  std::string text = "P3 " + size + "255\n", grey = "P5 " + size + "255\n", deep = "P5 " + size + "1023\n", threefold;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto value = static_cast<std::uint8_t>(expected[i]);
    text += std::to_string(value) + (i % 5 == 0 ? "\n" : " ");
    if (i % 3 != 0) continue;
    grey += expected[i];
    deep += {static_cast<char>(value * 1023 / 255 >> 8), static_cast<char>(value * 1023 / 255)};
    threefold += std::string(3, expected[i]);
  }
  EXPECT_EQ(rgb(as_jpeg_or_png(text, "a.ppm", {})), expected);
  EXPECT_EQ(rgb(as_jpeg_or_png(grey, "a.pgm", {})), threefold);
  EXPECT_EQ(rgb(as_jpeg_or_png(deep, "a.pgm", {})), threefold);
  const std::string black(3, '\0'), white(3, '\xFF');
  EXPECT_EQ(rgb(as_jpeg_or_png("P1 3 2\n101 0 1 0", "a.pbm", {})), black + white + black + white + black + white);
  EXPECT_EQ(rgb(as_jpeg_or_png("P4 3 2\n\xBF\x5F", "a.pbm", {})), black + white + black + white + black + white);
}

std::string png_chunk(const std::string& kind, const std::string& body) {
  const std::string content = kind + body;
  const auto check = static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
  std::string size = little({{std::ssize(body), 4}}), sum = little({{check, 4}});
  std::ranges::reverse(size);
  std::ranges::reverse(sum);
  return size + content + sum;
}

/// Returns a PNG file of one row of grey pixels with 16 bits.
std::string deep_png(std::initializer_list<int> values) {
  std::string row(1, '\0'), header(16, '\0');
  for (const int value : values) row += {static_cast<char>(value >> 8), static_cast<char>(value)};
  header.replace(0, 13, {0, 0, 0, static_cast<char>(values.size()), 0, 0, 0, 1, 16, 0, 0, 0, 0});
  uLongf bytes = compressBound(row.size());
  std::string data(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(data.data()), &bytes, reinterpret_cast<const Bytef*>(row.data()), row.size());
  return "\x89PNG\r\n\x1A\n" + png_chunk("IHDR", header.substr(0, 13)) + png_chunk("IDAT", data.substr(0, bytes)) +
         png_chunk("IEND", "");
}

/// Returns a TIFF file of one row of grey pixels with 16 bits. `colours`: 1 if the value 0 is black, 0 if it is white.
std::string deep_tiff(std::initializer_list<int> values, int colours = 1) {
  std::string pixels, tags;
  for (const int value : values) pixels += little({{value, 2}});
  const auto count = static_cast<std::int64_t>(values.size());
  int tag_count = 0;
  for (const auto& [tag, value] : {std::pair<int, std::int64_t>{256, count},
                                   {257, 1},
                                   {258, 16},
                                   {259, 1},
                                   {262, colours},
                                   {273, 8},
                                   {277, 1},
                                   {278, 1},
                                   {279, 2 * count}}) {
    tags += little({{tag, 2}, {4, 2}, {1, 4}, {value, 4}});
    ++tag_count;
  }
  return "II*" + std::string(1, '\0') + little({{8 + 2 * count, 4}}) + pixels + little({{tag_count, 2}}) + tags +
         little({{0, 4}});
}

/// Returns the first channel of a picture.
std::vector<int> levels(const std::string& file, const std::string& name) {
  std::vector<int> found;
  const std::string pixels = rgb(as_jpeg_or_png(file, name, {}));
  for (std::size_t i = 0; i < pixels.size(); i += 3) found.push_back(static_cast<std::uint8_t>(pixels[i]));
  return found;
}

TEST(PictureFile, OfSixteenBitsUsesTheBitsThatThePictureHas) {
  using testing::ElementsAre;
  EXPECT_THAT(levels(deep_png({0, 2048, 4095}), "a.png"), ElementsAre(0, 128, 255));
  EXPECT_THAT(levels(deep_png({0, 512, 1023}), "a.png"), ElementsAre(0, 128, 255));
  EXPECT_THAT(levels(deep_png({0, 7, 200}), "a.png"), ElementsAre(0, 7, 200));
  EXPECT_THAT(levels(deep_png({0, 256, 65535}), "a.png"), ElementsAre(0, 1, 255));
  EXPECT_EQ(as_jpeg_or_png(deep_png({0, 40000}), "a.png", {}), deep_png({0, 40000}));  // a PNG file is stored unchanged
  EXPECT_THAT(levels("P5 3 1 65535\n" + std::string("\0\0\x08\0\x0F\xFF", 6), "a.pgm"), ElementsAre(0, 128, 255));
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;
  EXPECT_THAT(levels(deep_tiff({0, 2048, 4095}), "a.tif"), ElementsAre(0, 128, 255));
  EXPECT_THAT(levels(deep_tiff({0, 2048, 4095}, 0), "a.tif"), ElementsAre(255, 127, 0));
  EXPECT_THAT(levels(deep_tiff({0, 256, 65535}), "a.tif"), ElementsAre(0, 1, 255));
}

TEST(PictureFile, InAnimatedWebpIsItsFirstFrame) {
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;
  const std::string still = picture("lossless.webp");
  const auto chunk = [](const std::string& kind, const std::string& body) {
    return kind + little({{std::ssize(body), 4}}) + body;
  };
  // The canvas has 27 x 17 pixels. The first frame is at column 4 and row 2; the second frame is damaged.
  const std::string frame = little({{2, 3}, {1, 3}, {width - 1, 3}, {height - 1, 3}, {100, 3}, {0, 1}});
  const std::size_t image = still.find("VP8L");
  const std::string body = "WEBP" + chunk("VP8X", little({{0x12, 4}, {26, 3}, {16, 3}})) +
                           chunk("ANIM", std::string(6, '\0')) + chunk("ANMF", frame + still.substr(image)) +
                           chunk("ANMF", frame + "damaged!");
  const DecodedPart whole = decoded(as_jpeg_or_png("RIFF" + little({{std::ssize(body), 4}}) + body, "a.webp", {}));
  const DecodedPart expected = decoded(as_jpeg_or_png(still, "a.webp", {}));
  ASSERT_EQ(whole.width, 27);
  ASSERT_EQ(whole.height, 17);
  for (std::int64_t y = 0; y < 17; ++y) {
    for (std::int64_t x = 0; x < 27; ++x) {
      const bool is_inside = y >= 2 && y < 2 + height && x >= 4 && x < 4 + width;
      const std::uint8_t white[] = {255, 255, 255};
      const std::uint8_t* pixel = is_inside ? expected.row_at(y - 2) + (x - 4) * 4 : white;
      ASSERT_TRUE(std::equal(pixel, pixel + 3, whole.row_at(y) + x * 4)) << y << " " << x;
    }
  }
}

TEST(PictureFile, InBmpOrPnmThatIsCutOrChangedIsRefusedOrDecoded) {
  const std::string palette = little({{0xFF0000, 4}, {0x00FF00, 4}, {0x0000FF, 4}}) + std::string(52, '\0');
  const std::string runs = little({{0, 1}, {3, 1}, {0x01, 1}, {0x20, 1}, {0, 2}, {2, 1}, {0x22, 1}, {1, 1}, {0, 3}});
  for (const std::string& file :
       {bmp(3, 2, 4, 2, palette, runs), bmp(3, 2, 4, 0, palette, std::string(8, '\0')),
        bmp(3, 2, 32, 3, std::string(12, '\x0F'), std::string(24, 'x')), "P6 3 2 255\n" + std::string(18, 'x'),
        std::string("P2 3 2 9\n1 2 3 4 5 6\n"), "P5 3 1 65535\n" + std::string(6, 'x'), std::string("P1 3 1 1 0 1")}) {
    for (std::size_t i = 0; i < 8 * file.size(); ++i) {
      std::string changed = file;
      changed[i / 8] = static_cast<char>(changed[i / 8] ^ (1 << i % 8));
      for (const std::string& wrong : {changed, file.substr(0, i / 8)}) {
        try {
          as_jpeg_or_png(wrong, "a", {});
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::data) << error.what();
        }
      }
    }
  }
}

}  // namespace
}  // namespace carillon
