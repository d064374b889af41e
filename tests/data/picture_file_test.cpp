// Pictures in other formats than JPEG and PNG, compared with Pillow.
#include "src/data/convert/picture_file.h"

#include <gmock/gmock.h>

#include <cstdlib>

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
  int largest = 0;  ///< accepted difference of a value
};

/// In the order of converted.u8.
const std::vector<Converted> files{{"colour.tif"},     {"alpha.tif", 1},     {"deep_grey.tif"}, {"oriented_6.tif"},
                                   {"oriented_7.tif"}, {"lossless.webp", 1}, {"lossy.webp", 2}, {"oriented_8.webp"},
                                   {"palette.gif"},    {"transparent.gif"},  {"animated.gif"}};

TEST(PictureFile, OfAnotherFormatBecomesThePngThatPillowShows) {
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;  // these formats are refused: below
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
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;  // these formats are refused: below
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
  EXPECT_EQ(refusal("BM....", "c.bmp"),
            "is a BMP file: this format is not supported; convert it first: mogrify -format png c.bmp");
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

/// The size is checked before memory is allocated.
TEST(PictureFile, WithTooManyPixelsIsRefused) {
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;
  std::string gif = picture("palette.gif");
  gif.replace(6, 4, "\x60\xEA\x60\xEA");
  EXPECT_THAT(failure_of([&] { as_jpeg_or_png(gif, "a.gif", {}); }).text, HasSubstr("has 60000 x 60000 pixels"));
}

}  // namespace
}  // namespace carillon
