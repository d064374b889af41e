// Decodes the first image of TIFF 6.0 and BigTIFF files, through libtiff.
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "carillon/core/error.h"
#include "src/data/convert/picture_file.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

/// A file in memory that libtiff reads, and the first error that libtiff reports.
struct Source {
  std::span<const std::uint8_t> file;
  std::uint64_t position = 0;
  std::array<char, 300> error{};
};

Source& source_of(thandle_t handle) { return *static_cast<Source*>(handle); }

tmsize_t read(thandle_t handle, void* out, tmsize_t bytes) {
  Source& source = source_of(handle);
  if (bytes <= 0 || source.position >= source.file.size()) return 0;
  const std::size_t count =
      std::min(static_cast<std::size_t>(bytes), source.file.size() - static_cast<std::size_t>(source.position));
  std::memcpy(out, source.file.data() + source.position, count);
  source.position += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t write(thandle_t /*handle*/, void* /*in*/, tmsize_t /*bytes*/) { return 0; }

toff_t seek(thandle_t handle, toff_t offset, int whence) {
  Source& source = source_of(handle);
  const std::uint64_t from = whence == SEEK_CUR ? source.position : whence == SEEK_END ? source.file.size() : 0;
  source.position = from + offset;
  return source.position;
}

int close(thandle_t /*handle*/) { return 0; }

toff_t size(thandle_t handle) { return source_of(handle).file.size(); }

int keep_error(TIFF* /*tiff*/, void* handle, const char* /*function*/, const char* format, va_list values) {
  Source& source = *static_cast<Source*>(handle);
  if (source.error[0] == '\0') std::vsnprintf(source.error.data(), source.error.size(), format, values);
  return 1;  // 1: the message is handled, so libtiff prints nothing
}

int ignore_warning(TIFF* /*tiff*/, void* /*handle*/, const char* /*function*/, const char* /*format*/,
                   va_list /*values*/) {
  return 1;
}

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using TiffFile = std::unique_ptr<TIFF, CloseTiff>;

TiffFile open(Source& source) {
  constexpr tmsize_t max_bytes_at_once = tmsize_t{1} << 30;
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 TIFFOpenOptionsFree);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), max_bytes_at_once);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore_warning, nullptr);
  return TiffFile(
      TIFFClientOpenExt("", "rm", &source, read, write, seek, close, size, nullptr, nullptr, options.get()));
}

/// Returns the samples of a picture with 16-bit grey or RGB pixels, in the order of its rows. Returns nullopt for any
/// other picture. libtiff's conversion to 8 bits would drop the lower 8 bits. Errors: data (the file is damaged).
std::optional<std::vector<std::uint16_t>> deep_samples(TIFF* tiff, std::uint32_t height, std::uint32_t width,
                                                       const Source& source) {
  std::uint16_t bits = 0, channels = 0, planes = 0, kind = 0, colours = 0;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &channels);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planes);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &kind);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &colours);
  const bool is_grey = channels == 1 && (colours == PHOTOMETRIC_MINISBLACK || colours == PHOTOMETRIC_MINISWHITE);
  const bool is_rgb = channels == 3 && colours == PHOTOMETRIC_RGB && planes == PLANARCONFIG_CONTIG;
  if (bits != 16 || kind != SAMPLEFORMAT_UINT || !(is_grey || is_rgb)) return std::nullopt;
  const auto require = [&](bool holds) {
    if (!holds) fail(ExitCode::data, "is damaged: {}", source.error.data());
  };
  const std::size_t row_samples = std::size_t{width} * channels;
  std::vector<std::uint16_t> samples(row_samples * height);
  if (TIFFIsTiled(tiff) == 0) {
    std::vector<std::uint16_t> line((static_cast<std::size_t>(std::max<tmsize_t>(TIFFScanlineSize(tiff), 0)) + 1) / 2);
    require(line.size() >= row_samples);
    for (std::uint32_t y = 0; y < height; ++y) {
      require(TIFFReadScanline(tiff, line.data(), y, 0) == 1);
      std::copy_n(line.begin(), row_samples, samples.begin() + static_cast<std::ptrdiff_t>(y * row_samples));
    }
  } else {
    std::uint32_t tile_height = 0, tile_width = 0;
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
    check_size(tile_height, tile_width);
    const std::size_t tile_samples = std::size_t{tile_height} * tile_width * channels;
    require(tile_samples > 0 && TIFFTileSize(tiff) == static_cast<tmsize_t>(2 * tile_samples));
    std::vector<std::uint16_t> tile(tile_samples);
    for (std::uint32_t top = 0; top < height; top += tile_height) {
      for (std::uint32_t left = 0; left < width; left += tile_width) {
        require(TIFFReadTile(tiff, tile.data(), left, top, 0, 0) >= 0);
        const std::size_t count = std::size_t{std::min(tile_width, width - left)} * channels;
        for (std::uint32_t y = 0; y < std::min(tile_height, height - top); ++y) {
          std::copy_n(tile.data() + std::size_t{y} * tile_width * channels, count,
                      samples.data() + (top + y) * row_samples + std::size_t{left} * channels);
        }
      }
    }
  }
  if (colours == PHOTOMETRIC_MINISWHITE) {
    const int used = std::bit_width(std::ranges::max(samples));
    const auto white = static_cast<std::uint16_t>((1U << std::max(8, (used + 1) / 2 * 2)) - 1);
    for (std::uint16_t& sample : samples) sample = static_cast<std::uint16_t>(white - sample);
  }
  return samples;
}

}  // namespace

int read_tiff(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole) {
  Source source{.file = file};
  const TiffFile tiff = open(source);
  if (!tiff) fail(ExitCode::data, "is damaged: {}", source.error.data());
  std::uint32_t height = 0, width = 0;
  std::uint16_t orientation = 1;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_ORIENTATION, &orientation);
  if (orientation < 1 || orientation > 8) orientation = 1;
  check_size(height, width);
  if (const auto samples = deep_samples(tiff.get(), height, width, source)) {
    place_deep_pixels(*samples, height, width, whole);
    return orientation;
  }
  std::array<char, 1024> reason{};
  if (TIFFRGBAImageOK(tiff.get(), reason.data()) == 0) throw UnsupportedPicture{reason.data()};
  std::vector<std::uint32_t> pixels(std::size_t{height} * width);
  // Requests the orientation that the file states, so that libtiff does not reverse rows or columns. The caller applies
  // the whole orientation, because libtiff cannot swap height and width.
  if (TIFFReadRGBAImageOriented(tiff.get(), width, height, pixels.data(), orientation, 1) == 0) {
    fail(ExitCode::data, "is damaged: {}", source.error.data());
  }
  place_part(whole, {0, 0, height, width}, 1);
  const std::uint32_t behind[] = {background.red, background.green, background.blue};
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::uint32_t alpha = TIFFGetA(pixels[i]);
    const std::uint32_t colours[] = {TIFFGetR(pixels[i]), TIFFGetG(pixels[i]), TIFFGetB(pixels[i])};
    for (std::size_t c = 0; c < 3; ++c) {  // libtiff has multiplied the colours by alpha
      const std::uint32_t sum = colours[c] + ((255 - alpha) * behind[c] + 127) / 255;
      whole.pixels[i * 4 + c] = static_cast<std::uint8_t>(std::min<std::uint32_t>(sum, 255));
    }
  }
  return orientation;
}

}  // namespace carillon
