// TIFF 6.0 and BigTIFF, the first image of a file, through libtiff.
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

#include "carillon/core/error.h"
#include "src/data/convert/picture_file.h"
#include "src/images/formats.h"

namespace carillon {
namespace {

/// A file in memory, as libtiff reads it, and its first error.
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
  return 1;  // handled: libtiff prints nothing
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
  std::array<char, 1024> reason{};
  if (TIFFRGBAImageOK(tiff.get(), reason.data()) == 0) throw UnsupportedPicture{reason.data()};
  std::vector<std::uint32_t> pixels(std::size_t{height} * width);
  // Requests the orientation that the file states, so that libtiff does not reverse rows or columns: libtiff cannot
  // swap height and width.
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
