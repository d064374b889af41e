// JpegHuffmanReader beside libjpeg's own: the same pixels, or it gives up.
#include "src/images/jpeg_huffman.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/images/fixtures.h"
#include "tests/images/libjpeg_decoding.h"

namespace carillon {
namespace {

struct FileForm {
  std::string name;
  int height = 61, width = 83;
  int quality = 90;
  int components = 3;
  int horizontal = 2, vertical = 2;  ///< sampling factors of the first component; the others' are 1
  unsigned restart_interval = 0;     ///< in units
  bool optimized = false;            ///< tables of its own
  bool fills = false;                ///< 0xFF more before each marker within the data
};

/// Smooth on the left, noise on the right, so that blocks have few coefficients and all.
std::vector<std::uint8_t> encoded(const FileForm& form) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_height = static_cast<JDIMENSION>(form.height);
  jpeg.image_width = static_cast<JDIMENSION>(form.width);
  jpeg.input_components = form.components;
  jpeg.in_color_space = form.components == 1 ? JCS_GRAYSCALE : form.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, form.quality, TRUE);
  jpeg.optimize_coding = form.optimized ? TRUE : FALSE;
  jpeg.restart_interval = form.restart_interval;
  jpeg.comp_info[0].h_samp_factor = form.horizontal;
  jpeg.comp_info[0].v_samp_factor = form.vertical;
  jpeg_start_compress(&jpeg, TRUE);
  std::mt19937 random(5);
  std::vector<std::uint8_t> line(static_cast<std::size_t>(form.width * form.components));
  while (jpeg.next_scanline < jpeg.image_height) {
    for (std::size_t x = 0; x < line.size(); ++x) {
      line[x] = static_cast<std::uint8_t>(x < line.size() / 2 ? x + jpeg.next_scanline : random());
    }
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::vector<std::uint8_t> file(memory, memory + size);
  std::free(memory);
  if (!form.fills) return file;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] != 0xFF || file[i + 1] < 0xD0 || file[i + 1] > 0xD7) continue;
    file.insert(file.begin() + static_cast<std::ptrdiff_t>(i), {0xFF, 0xFF});
    i += 3;
  }
  return file;
}

std::vector<Box> boxes_of(const FileForm& form) {
  const int height = form.height, width = form.width;
  return {{0, 0, height, width},
          {0, 0, height / 2, width / 2},
          {height / 2, width / 2, height - height / 2, width - width / 2},
          {height / 3, width / 3, height / 3, width / 3}};
}

class JpegHuffman : public testing::TestWithParam<FileForm> {};

TEST_P(JpegHuffman, ReadsWhatLibjpegReads) {
  const std::vector<std::uint8_t> file = encoded(GetParam());
  JpegHuffmanReader huffman;
  for (const unsigned reduction : {1u, 2u, 8u}) {
    for (const Box& box : boxes_of(GetParam())) {
      const Outcome ours = decoded(file, box, reduction, &huffman), theirs = decoded(file, box, reduction, nullptr);
      ASSERT_TRUE(ours.installed) << "without libjpeg-turbo's jpegint.h";
      ASSERT_FALSE(ours.ended || theirs.ended);
      EXPECT_FALSE(huffman.gave_up());
      EXPECT_EQ(theirs.damage, 0);
      EXPECT_TRUE(same(ours, theirs)) << "reduced by " << reduction << ", from row " << box.row;
    }
  }
}

TEST_P(JpegHuffman, GivesUpOrReadsWhatLibjpegReadsOfDamagedData) {
  const std::vector<std::uint8_t> file = encoded(GetParam());
  JpegHuffmanReader huffman;
  std::mt19937 random(7);
  const auto scan = static_cast<std::size_t>(std::ranges::search(file, std::vector<std::uint8_t>{0xFF, 0xDA}).begin() -
                                             file.begin() + 14);
  int given_up = 0;
  constexpr int tries = 300;
  for (int i = 0; i < tries; ++i) {
    std::vector<std::uint8_t> damaged = file;
    const std::size_t at = scan + random() % (file.size() - scan);
    if (i % 3 == 0) {
      damaged.resize(at);
    } else {
      damaged[at] = static_cast<std::uint8_t>(i % 3 == 1 ? damaged[at] ^ (1 << random() % 8) : 0xFF);
    }
    const Box box = boxes_of(GetParam())[static_cast<std::size_t>(i / 3) % 4];
    const Outcome ours = decoded(damaged, box, 1, &huffman);
    if (huffman.gave_up()) {
      EXPECT_TRUE(ours.ended);
      ++given_up;
      continue;
    }
    const Outcome theirs = decoded(damaged, box, 1, nullptr);
    EXPECT_TRUE(same(ours, theirs)) << "damaged at " << at << " of " << file.size() << " in way " << i % 3;
  }
  EXPECT_GT(given_up, tries / 20);
}

INSTANTIATE_TEST_SUITE_P(Forms, JpegHuffman,
                         testing::Values(FileForm{.name = "Usual"}, FileForm{.name = "AllCoefficients", .quality = 100},
                                         FileForm{.name = "FewCoefficients", .quality = 10},
                                         FileForm{.name = "FullColours", .horizontal = 1, .vertical = 1},
                                         FileForm{.name = "HalfColours", .horizontal = 2, .vertical = 1},
                                         FileForm{.name = "TallColours", .horizontal = 1, .vertical = 2},
                                         FileForm{.name = "QuarterColours", .horizontal = 4, .vertical = 1},
                                         FileForm{.name = "Grey", .components = 1, .horizontal = 1, .vertical = 1},
                                         FileForm{.name = "GreyOfTallUnits", .components = 1},
                                         FileForm{.name = "FourInks", .components = 4, .horizontal = 1, .vertical = 1},
                                         FileForm{.name = "OwnTables", .quality = 98, .optimized = true},
                                         FileForm{.name = "RestartsInARow", .restart_interval = 4},
                                         FileForm{.name = "RestartsOfEachUnit", .quality = 100, .restart_interval = 1},
                                         FileForm{
                                             .name = "RestartsBehindFillBytes", .restart_interval = 3, .fills = true},
                                         FileForm{.name = "OneUnit", .height = 5, .width = 3, .restart_interval = 1},
                                         FileForm{.name = "WholeUnits", .height = 64, .width = 96, .quality = 100}),
                         [](const auto& form) { return form.param.name; });

/// Its tables are kept from picture to picture.
TEST(JpegHuffmanTables, AreMadeAnewWhereAPictureHasOthers) {
  JpegHuffmanReader huffman;
  const FileForm forms[] = {
      {.quality = 95}, {.quality = 95, .optimized = true}, {.quality = 20, .optimized = true}, {}};
  for (const FileForm& form : forms) {
    const std::vector<std::uint8_t> file = encoded(form);
    const Box box = boxes_of(form)[3];
    const Outcome ours = decoded(file, box, 1, &huffman);
    EXPECT_TRUE(ours.installed);
    EXPECT_TRUE(same(ours, decoded(file, box, 1, nullptr)));
    EXPECT_FALSE(huffman.gave_up());
  }
}

/// libjpeg passes over what lies between the data and a marker.
TEST(JpegDecoding, IsLibjpegsWhereTheFasterReaderGivesUp) {
  const std::vector<std::uint8_t> file = encoded({.restart_interval = 4});
  std::vector<std::uint8_t> odd = file;
  const auto marker = std::ranges::search(odd, std::vector<std::uint8_t>{0xFF, 0xD0}).begin();
  odd.insert(marker, 12, 0x5A);
  JpegHuffmanReader huffman;
  EXPECT_TRUE(decoded(odd, {0, 0, 61, 83}, 1, &huffman).ended);
  EXPECT_TRUE(huffman.gave_up());
  DecodedPart expected, got;
  decode_whole(file, expected);
  decode_whole(odd, got);
  EXPECT_EQ(rgb_of(got), rgb_of(expected));
}

}  // namespace
}  // namespace carillon
