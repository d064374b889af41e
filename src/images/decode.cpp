#include "carillon/images/decode.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/images/formats.h"

namespace carillon {
namespace {

struct FileKind {
  std::string_view magic, name;
};
using namespace std::string_view_literals;
constexpr FileKind other_kinds[] = {{"GIF8"sv, "GIF"},
                                    {"BM"sv, "BMP"},
                                    {"RIFF"sv, "WebP"},
                                    {"II*\0"sv, "TIFF"},
                                    {"MM\0*"sv, "TIFF"},
                                    {"\0\0\0\fJXL "sv, "JPEG XL"},
                                    {"\0\0\0\fjP  "sv, "JPEG 2000"}};

bool starts_with(std::span<const std::uint8_t> file, std::string_view magic) {
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).starts_with(magic);
}

/// Errors: data.
PictureFormat format_of(std::span<const std::uint8_t> file) {
  if (file.empty()) fail(ExitCode::data, "is empty");
  if (starts_with(file, "\xFF\xD8"sv)) return PictureFormat::jpeg;
  if (starts_with(file, "\x89PNG\r\n\x1A\n"sv)) return PictureFormat::png;
  for (const FileKind& kind : other_kinds) {
    if (starts_with(file, kind.magic)) {
      fail(ExitCode::data, "looks like a {} file; what is read is JPEG and PNG", kind.name);
    }
  }
  if (file.size() > 12 && starts_with(file.subspan(4), "ftyp"sv)) {
    fail(ExitCode::data, "looks like a HEIF or AVIF file; what is read is JPEG and PNG");
  }
  fail(ExitCode::data, "is neither a JPEG nor a PNG file");
}

}  // namespace

void check_pixels(const Picture& picture) {
  check(picture.channels == 1 || picture.channels == 3, "a picture must have 1 or 3 channels");
  check(picture.pixels.size() == static_cast<std::size_t>(picture.height * picture.width * picture.channels),
        "a picture has height x width x channels pixels");
}

void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction) {
  part.row = box.row;
  part.column = box.column;
  part.height = box.height;
  part.width = box.width;
  part.reduction = reduction;
  const std::size_t bytes = static_cast<std::size_t>(box.height * box.width) * 4;
  if (part.pixels.size() < bytes) part.pixels.resize(bytes);
}

PictureInfo picture_info(std::span<const std::uint8_t> file) {
  const PictureInfo info = format_of(file) == PictureFormat::jpeg ? jpeg_info(file) : png_info(file);
  if (info.height < 1 || info.width < 1) fail(ExitCode::data, "has no pixels");
  if (std::max(info.height, info.width) > max_picture_side || info.width > max_picture_pixels / info.height) {
    fail(ExitCode::data, "has {} x {} pixels; up to {} million are read, and {} a side", info.width, info.height,
         max_picture_pixels / 1'000'000, max_picture_side);
  }
  return info;
}

void decode_part(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part) {
  const PictureInfo info = picture_info(file);
  const PictureBox& box = request.needed;
  check(box.row >= 0 && box.column >= 0 && box.height > 0 && box.width > 0 && box.row + box.height <= info.height &&
            box.column + box.width <= info.width,
        "the decoded rectangle must be within the picture");
  part.picture_height = info.height;
  part.picture_width = info.width;
  (info.format == PictureFormat::jpeg ? decode_jpeg : decode_png)(file, request, part);
}

void decode_whole(std::span<const std::uint8_t> file, DecodedPart& whole) {
  const PictureInfo info = picture_info(file);
  decode_part(file, {.needed = {0, 0, info.height, info.width}}, whole);
}

}  // namespace carillon
