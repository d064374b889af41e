#include "src/data/convert/picture_file.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/core/memory.h"
#include "src/core/text.h"
#include "src/images/formats.h"

namespace carillon {
namespace {

using ReadPicture = int (*)(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);

/// A kind of picture file: its decoder, and the command that converts a file to PNG.
struct Kind {
  std::string_view name;
  ReadPicture read;  ///< null: never read
  std::string_view command;
  bool names_output;  ///< the command expects the name of the PNG file
};
constexpr Kind kinds[] = {{"TIFF", read_tiff, "mogrify -format png", false},
                          {"WebP", read_webp, "mogrify -format png", false},
                          {"BMP", nullptr, "mogrify -format png", false},
                          {"GIF", read_gif, "mogrify -format png", false},
                          {"HEIF", nullptr, "heif-convert", true},
                          {"AVIF", nullptr, "heif-convert", true},
                          {"JPEG XL", nullptr, "djxl", true},
                          {"JPEG 2000", nullptr, "mogrify -format png", false}};

[[noreturn]] void refuse(const Kind& kind, const std::filesystem::path& path, const std::string& reason) {
  const std::string output = shell_word(std::filesystem::path(path).replace_extension(".png").string());
  fail(ExitCode::data, "is a {} file: {}; convert it first: {} {}{}", kind.name, reason, kind.command,
       shell_word(path.string()), kind.names_output ? fmt::format(" {}", output) : "");
}

/// The opaque pixels of `whole` as PNG.
std::string png_of(DecodedPart whole) {
  Picture picture{.height = whole.height, .width = whole.width, .channels = 3, .pixels = {}};
  const auto count = static_cast<std::size_t>(whole.height * whole.width);
  picture.pixels.resize(count * 3);
  for (std::size_t i = 0; i < count; ++i) std::copy_n(whole.pixels.data() + i * 4, 3, picture.pixels.data() + i * 3);
  free_memory(whole.pixels);  // the encoder needs memory, too
  return encode_png(picture);
}

}  // namespace

std::string as_jpeg_or_png(std::string file, const std::filesystem::path& path, const Colour& background) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  const auto kind = std::ranges::find(kinds, other_picture_kind(bytes), &Kind::name);
  if (kind == std::end(kinds)) return file;
  if (kind->read == nullptr) refuse(*kind, path, "this format is not supported");
  DecodedPart whole;
  try {
    const int orientation = kind->read(bytes, background, whole);
    orient(whole, orientation, whole.height, whole.width);
  } catch (const UnsupportedPicture& unsupported) {
    refuse(*kind, path, unsupported.reason);
  }
  return png_of(std::move(whole));
}

}  // namespace carillon
