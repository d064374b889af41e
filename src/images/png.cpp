#include <png.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "carillon/core/error.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

/// The decompressor of one file. libpng reports errors by longjmp. The jumps leave only C functions.
class PngReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> file) : unread_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      fail(ExitCode::failed, "no memory for a PNG decoder");
    }
    try {
      guarded([&] {
        png_set_read_fn(png_, this, read);
        png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // the caller checks the number of pixels
        png_set_chunk_cache_max(png_, 128);
        png_set_chunk_malloc_max(png_, 8 << 20);
        // Ignores chunks with texts, profiles and other data.
        png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        png_read_info(png_, info_);
      });
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  PictureInfo info() const {
    const bool has_colours = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    return {PictureFormat::png, png_get_image_height(png_, info_), png_get_image_width(png_, info_),
            has_colours ? 3 : 1, has_alpha()};
  }

  void decode(const PartRequest& request, DecodedPart& part);
  /// Implements deep_png_pixels.
  std::optional<DeepPixels> deep_pixels();

 private:
  static void on_error(png_structp png, png_const_charp text) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(reader->text_.data(), text, reader->text_.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp /*png*/, png_const_charp /*text*/) {}
  static void read(png_structp png, png_bytep out, std::size_t bytes) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (bytes > reader->unread_.size()) png_error(png, "the file ends early");
    std::copy_n(reader->unread_.data(), bytes, out);
    reader->unread_ = reader->unread_.subspan(bytes);
  }

  template <typename Work>
  void guarded(const Work& work) {
    if (setjmp(png_jmpbuf(png_)) != 0) fail(ExitCode::data, "is damaged: {}", text_.data());
    work();
  }

  bool has_alpha() const {
    return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA) != 0 ||
           png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
  }

  /// Makes libpng write four bytes per pixel. The fourth byte is alpha, or unused if the file has no transparency.
  void ask_for_four_bytes() {
    const png_byte type = png_get_color_type(png_, info_);
    png_set_expand(png_);  // expands palettes and grey below 8 bits, and converts transparent colours to an alpha
                           // channel
    png_set_strip_16(png_);
    if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png_);
    if (!has_alpha()) png_set_filler(png_, 0xff, PNG_FILLER_AFTER);
  }

  std::span<const std::uint8_t> unread_;
  std::array<char, 200> text_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

void PngReader::decode(const PartRequest& request, DecodedPart& part) {
  const PictureInfo whole = info();
  const PictureBox& needed = request.needed;
  const bool interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
  const std::int64_t end_row = needed.row + needed.height;
  // libpng decodes whole rows. Rows of an interlaced picture are complete only after the last pass.
  place_part(
      part,
      interlaced ? PictureBox{0, 0, whole.height, whole.width} : PictureBox{needed.row, 0, needed.height, whole.width},
      1);
  std::vector<std::uint8_t> passed_over(interlaced ? 0 : static_cast<std::size_t>(whole.width) * 4);
  guarded([&] {
    ask_for_four_bytes();
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    for (int pass = 0; pass < passes; ++pass) {
      for (std::int64_t y = 0; y < (interlaced ? whole.height : end_row); ++y) {
        const bool is_kept = y >= part.row;
        png_read_row(png_, is_kept ? part.pixels.data() + (y - part.row) * whole.width * 4 : passed_over.data(),
                     nullptr);
      }
    }
    if (interlaced || end_row == whole.height) png_read_end(png_, nullptr);
  });
  if (whole.has_transparency) composite(part.pixels.data(), part.height * part.width, request.background);
}

std::optional<DeepPixels> PngReader::deep_pixels() {
  if (png_get_bit_depth(png_, info_) != 16 || has_alpha()) return std::nullopt;
  const PictureInfo whole = info();
  check_size(whole.height, whole.width);
  DeepPixels pixels{.height = whole.height, .width = whole.width, .samples = {}};
  const std::size_t row_samples = static_cast<std::size_t>(whole.width) * static_cast<std::size_t>(whole.channels);
  pixels.samples.resize(static_cast<std::size_t>(whole.height) * row_samples);
  guarded([&] {
    if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);  // PNG is big endian
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    for (int pass = 0; pass < passes; ++pass) {
      std::uint16_t* row = pixels.samples.data();
      for (std::int64_t y = 0; y < whole.height; ++y, row += row_samples) {
        png_read_row(png_, reinterpret_cast<png_bytep>(row), nullptr);
      }
    }
    png_read_end(png_, nullptr);
  });
  return pixels;
}

}  // namespace

std::optional<DeepPixels> deep_png_pixels(std::span<const std::uint8_t> file) {
  const bool is_png = file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0;
  return is_png ? PngReader(file).deep_pixels() : std::nullopt;
}

PictureInfo png_info(std::span<const std::uint8_t> file) { return PngReader(file).info(); }

void decode_png(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part) {
  PngReader(file).decode(request, part);
}

std::string encode_png(const Picture& picture) {
  check_pixels(picture);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, picture.pixels.data(), 0, nullptr) == 0) {
    fail(ExitCode::failed, "cannot encode a picture: {}", image.message);
  }
  file.resize(bytes);
  return file;
}

}  // namespace carillon
