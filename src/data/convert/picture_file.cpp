#include "src/data/convert/picture_file.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <vector>

#include "carillon/core/file.h"
#include "src/core/resources.h"
#include "src/core/text.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_file_bytes = std::size_t{256} << 20;

using ReadPicture = int (*)(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);

/// A kind of picture file. Contains its decoder, and the command that converts a file of this kind to PNG.
struct Kind {
  std::string_view name;
  ReadPicture read;  ///< decoder; null: files of this kind are not supported
  std::string_view command;
  bool names_output;  ///< true: the command expects the name of the PNG file
};
constexpr Kind kinds[] = {{"TIFF", read_tiff, "mogrify -format png", false},
                          {"WebP", read_webp, "mogrify -format png", false},
                          {"GIF", read_gif, "mogrify -format png", false},
                          {"BMP", read_bmp, "mogrify -format png", false},
                          {"PNM", read_pnm, "mogrify -format png", false},
                          {"HEIF", nullptr, "heif-convert", true},
                          {"AVIF", nullptr, "heif-convert", true},
                          {"JPEG XL", nullptr, "djxl", true},
                          {"JPEG 2000", nullptr, "mogrify -format png", false}};

[[noreturn]] void refuse(const Kind& kind, const fs::path& path, const std::string& reason) {
  const std::string output = shell_word(converted_copy(path).string());
  throw UnusablePicture(ExitCode::data, Unusable::unsupported,
                        fmt::format("is a {} file: {}; convert it first: {} {}{}", kind.name, reason, kind.command,
                                    shell_word(path.string()), kind.names_output ? fmt::format(" {}", output) : ""));
}

/// Returns the opaque pixels of `whole` as PNG.
std::string png_of(DecodedPart whole) {
  Picture picture{.height = whole.height, .width = whole.width, .channels = 3, .pixels = {}};
  const auto count = static_cast<std::size_t>(whole.height * whole.width);
  picture.pixels.resize(count * 3);
  for (std::size_t i = 0; i < count; ++i) std::copy_n(whole.pixels.data() + i * 4, 3, picture.pixels.data() + i * 3);
  free_memory(whole.pixels);  // freed here, because the encoder also needs memory
  return encode_png(picture);
}

/// Returns the command that shrinks the picture to a size that every reader accepts.
std::string shrinking(const fs::path& path) {
  return fmt::format("shrink it: mogrify -resize '4096x4096>' {}", shell_word(path.string()));
}

/// Returns the number of bits that samples up to `most` need, rounded up to an even number from 8 to 16.
int used_bits(std::uint16_t most) { return std::max(8, (std::bit_width(most) + 1) / 2 * 2); }

/// If `file` is a PNG file with 16-bit samples that use fewer than 16 bits, returns the picture as a PNG file with
/// 8-bit samples.
std::optional<std::string> with_used_bits(std::span<const std::uint8_t> file) {
  const std::optional<DeepPixels> deep = deep_png_pixels(file);
  if (!deep || used_bits(std::ranges::max(deep->samples)) == 16) return std::nullopt;
  DecodedPart whole;
  place_deep_pixels(deep->samples, deep->height, deep->width, whole);
  return png_of(std::move(whole));
}

}  // namespace

fs::path converted_copy(const fs::path& path) {
  fs::path copy = fs::path(path).replace_extension(".png");
  // A file named .png may have another format. Its PNG copy then needs another name.
  return copy == path ? fs::path(path) += ".png" : copy;
}

void place_deep_pixels(std::span<const std::uint16_t> samples, std::int64_t height, std::int64_t width,
                       DecodedPart& whole) {
  const int shift = used_bits(std::ranges::max(samples)) - 8;
  const auto count = static_cast<std::size_t>(height * width);
  const std::size_t channels = samples.size() / count;
  place_part(whole, {0, 0, height, width}, 1);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      whole.pixels[i * 4 + c] = static_cast<std::uint8_t>(samples[i * channels + (channels == 3 ? c : 0)] >> shift);
    }
    whole.pixels[i * 4 + 3] = 255;
  }
}

std::string as_jpeg_or_png(std::string file, const fs::path& path, const Colour& background) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  const auto kind = std::ranges::find(kinds, other_picture_kind(bytes), &Kind::name);
  if (kind == std::end(kinds)) return with_used_bits(bytes).value_or(std::move(file));
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

void read_picture(const fs::path& path, const Colour& background, const std::function<void(std::string file)>& use) {
  const std::string name = path.string();
  std::error_code error;
  if (const std::uintmax_t bytes = fs::file_size(path, error); !error && bytes > max_file_bytes) {
    throw UnusablePicture(
        ExitCode::data, Unusable::too_large,
        fmt::format("{}: has {} bytes; up to {} are read; {}", name, bytes, max_file_bytes, shrinking(path)));
  }
  std::string file;
  try {
    file = read_plain_file(path, name, max_file_bytes);
  } catch (const Error& unread) {
    // An error of the disk or the network may affect all pictures. Therefore it is not a reason to skip this picture.
    const bool is_refused = access(path.c_str(), R_OK) != 0 && (errno == EACCES || errno == ELOOP);
    if (unread.code() == ExitCode::io && !is_refused) throw;
    throw UnusablePicture(unread.code(), Unusable::not_opened, unread.what());
  }
  try {
    use(as_jpeg_or_png(std::move(file), path, background));
  } catch (const TooLargePicture& large) {
    throw UnusablePicture(large.code(), Unusable::too_large,
                          fmt::format("{}: {}; {}", name, large.what(), shrinking(path)));
  } catch (const UnusablePicture& unsupported) {
    throw UnusablePicture(unsupported.code(), unsupported.reason(), fmt::format("{}: {}", name, unsupported.what()));
  } catch (const Error& damaged) {
    if (damaged.code() != ExitCode::data) fail(damaged.code(), "{}: {}", name, damaged.what());
    throw UnusablePicture(damaged.code(), Unusable::damaged, fmt::format("{}: {}", name, damaged.what()));
  }
}

void read_picture_or_copy(const fs::path& path, const Colour& background,
                          const std::function<void(std::string file)>& use) {
  try {
    return read_picture(path, background, use);
  } catch (const UnusablePicture& unusable) {
    std::error_code error;
    const bool has_copy = unusable.reason() == Unusable::unsupported && fs::exists(converted_copy(path), error);
    if (!has_copy) throw;
  }
  read_picture(converted_copy(path), background, use);
}

std::string skipped_text(const std::map<Unusable, std::size_t>& skipped) {
  std::string text;
  for (const auto& [reason, count] : skipped) {
    const auto pictures = [&, &count = count](const char* which) {
      return fmt::format("{} {}", count_text(count, "picture"), which);
    };
    text += text.empty() ? "" : ", ";
    switch (reason) {
      case Unusable::damaged:
        text += count_text(count, "damaged picture");
        break;
      case Unusable::unsupported:
        text += pictures("in a format that is not read");
        break;
      case Unusable::too_large:
        text += pictures(count == 1 ? "that is too large" : "that are too large");
        break;
      case Unusable::not_opened:
        text += pictures("that cannot be opened");
        break;
    }
  }
  return text;
}

}  // namespace carillon
