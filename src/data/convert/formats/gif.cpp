// Decodes the first frame of GIF87a and GIF89a files, through giflib.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "carillon/core/error.h"
#include "src/data/convert/picture_file.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

int read(GifFileType* gif, GifByteType* out, int bytes) {
  auto& unread = *static_cast<std::span<const std::uint8_t>*>(gif->UserData);
  const std::size_t count = std::min(static_cast<std::size_t>(std::max(bytes, 0)), unread.size());
  std::memcpy(out, unread.data(), count);
  unread = unread.subspan(count);
  return static_cast<int>(count);
}

[[noreturn]] void fail_as_damaged(int error) {
  const char* const text = GifErrorString(error);
  fail(ExitCode::data, "is damaged: {}", text != nullptr ? text : "unknown cause");
}

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;

void require(int status, const GifFileType& gif) {
  if (status != GIF_OK) fail_as_damaged(gif.Error);
}

/// Reads up to the header of the first frame. Returns the index of the transparent colour, or NO_TRANSPARENT_COLOR.
int find_first_frame(GifFileType& gif) {
  int transparent = NO_TRANSPARENT_COLOR;
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    require(DGifGetRecordType(&gif, &type), gif);
    if (type == IMAGE_DESC_RECORD_TYPE) {
      require(DGifGetImageDesc(&gif), gif);
      return transparent;
    }
    if (type == TERMINATE_RECORD_TYPE) fail(ExitCode::data, "has no pixels");
    if (type != EXTENSION_RECORD_TYPE) continue;
    int code = 0;
    GifByteType* block = nullptr;  // the first byte of the block is the number of bytes that follow
    require(DGifGetExtension(&gif, &code, &block), gif);
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr && block[0] >= 4) {
      GraphicsControlBlock control{};
      if (DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) transparent = control.TransparentColor;
    }
    while (block != nullptr) require(DGifGetExtensionNext(&gif, &block), gif);
  }
}

/// Returns the order in which the rows of a frame are stored.
std::vector<int> row_order(int rows, bool interlaced) {
  struct Pass {
    int first, step;
  };
  static constexpr Pass interlaced_passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, single_pass[] = {{0, 1}};
  std::vector<int> order;
  for (const auto& [first, step] : interlaced ? std::span<const Pass>(interlaced_passes) : single_pass) {
    for (int row = first; row < rows; row += step) order.push_back(row);
  }
  return order;
}

}  // namespace

int read_gif(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole) {
  std::span<const std::uint8_t> unread = file;
  int error = 0;
  const GifFile gif(DGifOpen(&unread, read, &error));
  if (!gif) fail_as_damaged(error);
  const int transparent = find_first_frame(*gif);
  const GifImageDesc& frame = gif->Image;
  check_size(frame.Height, frame.Width);
  check_size(std::max(gif->SHeight, frame.Top + frame.Height), std::max(gif->SWidth, frame.Left + frame.Width));
  const std::int64_t height = std::max(gif->SHeight, frame.Top + frame.Height);
  const std::int64_t width = std::max(gif->SWidth, frame.Left + frame.Width);
  const ColorMapObject* const colours = frame.ColorMap != nullptr ? frame.ColorMap : gif->SColorMap;
  if (colours == nullptr) fail(ExitCode::data, "is damaged: it has no colours");
  place_part(whole, {0, 0, height, width}, 1);
  std::fill_n(whole.pixels.begin(), height * width * 4, std::uint8_t{0});  // pixels around the frame are transparent
  std::vector<GifPixelType> line(static_cast<std::size_t>(frame.Width));
  for (const int row : row_order(frame.Height, frame.Interlace)) {
    require(DGifGetLine(gif.get(), line.data(), frame.Width), *gif);
    std::uint8_t* pixel = whole.pixels.data() + ((frame.Top + row) * width + frame.Left) * 4;
    for (const int index : line) {
      if (index >= colours->ColorCount) fail(ExitCode::data, "is damaged: a pixel has no colour");
      const GifColorType& colour = colours->Colors[index];
      const std::array<std::uint8_t, 4> rgba{colour.Red, colour.Green, colour.Blue,
                                             static_cast<std::uint8_t>(index == transparent ? 0 : 255)};
      pixel = std::copy(rgba.begin(), rgba.end(), pixel);
    }
  }
  composite(whole.pixels.data(), height * width, background);
  return 1;
}

}  // namespace carillon
