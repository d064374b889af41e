#include "carillon/images/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "carillon/core/error.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

struct FileKind {
  std::string_view magic, name;
};
using namespace std::string_view_literals;
constexpr FileKind other_kinds[] = {{"GIF8"sv, "GIF"},
                                    {"II*\0"sv, "TIFF"},
                                    {"MM\0*"sv, "TIFF"},
                                    {"II+\0"sv, "TIFF"},
                                    {"MM\0+"sv, "TIFF"},
                                    {"\0\0\0\fJXL "sv, "JPEG XL"},
                                    {"\xFF\x0A"sv, "JPEG XL"},
                                    {"\0\0\0\fjP  "sv, "JPEG 2000"},
                                    {"\xFF\x4F\xFF\x51"sv, "JPEG 2000"}};
/// Brands of ISO base media files (ISO/IEC 23008-12, AVIF) that contain pictures. Files with other brands contain
/// films.
constexpr FileKind brands[] = {{"avif"sv, "AVIF"}, {"avis"sv, "AVIF"}, {"heic"sv, "HEIF"}, {"heix"sv, "HEIF"},
                               {"heim"sv, "HEIF"}, {"heis"sv, "HEIF"}, {"hevc"sv, "HEIF"}, {"hevx"sv, "HEIF"},
                               {"mif1"sv, "HEIF"}, {"msf1"sv, "HEIF"}};

std::string_view text_of(std::span<const std::uint8_t> file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

bool starts_with(std::span<const std::uint8_t> file, std::string_view magic) {
  return text_of(file).starts_with(magic);
}

/// "BM" can also begin a text. Therefore the size of the second header, at byte 14, must be the size of a known
/// version.
bool is_bmp(std::span<const std::uint8_t> file) {
  constexpr std::array<std::uint8_t, 8> sizes{12, 16, 40, 52, 56, 64, 108, 124};
  return starts_with(file, "BM"sv) && file.size() >= 18 && std::ranges::find(sizes, file[14]) != sizes.end() &&
         starts_with(file.subspan(15), "\0\0\0"sv);
}

/// True if the file is a Netpbm file: P1 to P6, white space, then a number or a comment.
bool is_pnm(std::span<const std::uint8_t> file) {
  constexpr std::string_view white = " \t\n\v\f\r";
  const std::string_view text = text_of(file);
  if (text.size() < 4 || text[0] != 'P' || text[1] < '1' || text[1] > '6' || white.find(text[2]) == white.npos)
    return false;
  const std::size_t next = text.find_first_not_of(white, 2);
  return next != text.npos && (text[next] == '#' || (text[next] >= '0' && text[next] <= '9'));
}

constexpr std::string_view png_magic = "\x89PNG\r\n\x1A\n";

/// Returns the format that the first bytes of the file show. Errors: data (the file has another format).
PictureFormat format_of(std::span<const std::uint8_t> file) {
  if (file.empty()) fail(ExitCode::data, "is empty");
  if (starts_with(file, "\xFF\xD8"sv)) return PictureFormat::jpeg;
  if (starts_with(file, png_magic)) return PictureFormat::png;
  if (const std::string_view kind = other_picture_kind(file); !kind.empty()) {
    fail(ExitCode::data, "looks like a {} file; supported formats are JPEG and PNG", kind);
  }
  fail(ExitCode::data, "is neither a JPEG nor a PNG file");
}

}  // namespace

std::string_view other_picture_kind(std::span<const std::uint8_t> file) {
  for (const FileKind& kind : other_kinds) {
    if (starts_with(file, kind.magic)) return kind.name;
  }
  if (is_bmp(file)) return "BMP";
  if (is_pnm(file)) return "PNM";
  if (file.size() < 12) return "";
  if (starts_with(file, "RIFF"sv) && starts_with(file.subspan(8), "WEBP"sv)) return "WebP";
  if (!starts_with(file.subspan(4), "ftyp"sv)) return "";
  const auto* const brand = std::ranges::find(brands, text_of(file.subspan(8, 4)), &FileKind::magic);
  return brand != std::end(brands) ? brand->name : "";
}

bool begins_as_picture(std::span<const std::uint8_t> file) {
  return starts_with(file, "\xFF\xD8\xFF"sv) || starts_with(file, png_magic) || !other_picture_kind(file).empty();
}

void check_pixels(const Picture& picture) {
  check(picture.channels == 1 || picture.channels == 3, "a picture must have 1 or 3 channels");
  check(picture.pixels.size() == static_cast<std::size_t>(picture.height * picture.width * picture.channels),
        "a picture has height x width x channels pixels");
}

void composite(std::uint8_t* pixels, std::int64_t count, const Colour& background) {
  const int behind[] = {background.red, background.green, background.blue};
  for (std::int64_t i = 0; i < count; ++i, pixels += 4) {
    const int alpha = pixels[3];
    for (int c = 0; c < 3; ++c) {
      const int sum = alpha * pixels[c] + (255 - alpha) * behind[c] + 128;
      pixels[c] = static_cast<std::uint8_t>((sum + (sum >> 8)) >> 8);  // sum / 255, rounded
    }
  }
}

void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction) {
  part.row = box.row;
  part.column = box.column;
  part.height = box.height;
  part.width = box.width;
  part.reduction = reduction;
  part.row_padding = part.column_padding = 0;
  const std::size_t bytes = static_cast<std::size_t>(box.height * box.width) * 4;
  if (part.pixels.size() < bytes) part.pixels.resize(bytes);
}

void check_size(std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) fail(ExitCode::data, "has no pixels");
  if (std::max(height, width) > max_picture_side || width > max_picture_pixels / height) {
    throw TooLargePicture(ExitCode::data, fmt::format("has {} x {} pixels; up to {} million are read, and {} a side",
                                                      width, height, max_picture_pixels / 1'000'000, max_picture_side));
  }
}

PictureInfo picture_info(std::span<const std::uint8_t> file) {
  const bool is_jpeg = format_of(file) == PictureFormat::jpeg;
  PictureInfo info = is_jpeg ? jpeg_info(file) : png_info(file);
  check_size(info.height, info.width);
  if (is_jpeg) info.orientation = exif_orientation(file);
  if (swaps_sides(info.orientation)) std::swap(info.height, info.width);
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
  if (info.format == PictureFormat::png) return decode_png(file, request, part);
  PartRequest stored = request;
  stored.needed = stored_box(box, info);
  std::int64_t height = info.height, width = info.width;
  if (swaps_sides(info.orientation)) {
    std::swap(stored.vertical_scale, stored.horizontal_scale);
    std::swap(height, width);
  }
  decode_jpeg(file, stored, part);
  orient(part, info.orientation, height, width);
}

void decode_whole(std::span<const std::uint8_t> file, DecodedPart& whole) {
  const PictureInfo info = picture_info(file);
  decode_part(file, {.needed = {0, 0, info.height, info.width}}, whole);
}

std::optional<Colour> parse_colour(std::string_view text) {
  if (text == "white") return Colour{};
  if (text == "black") return Colour{0, 0, 0};
  if (text.size() != 7 || text.front() != '#') return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Colour{static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8),
                static_cast<std::uint8_t>(value)};
}

std::string colour_text(const Colour& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

}  // namespace carillon
