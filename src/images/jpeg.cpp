#include <array>
#include <csetjmp>
#include <cstdio>  // must precede jpeglib.h, which uses FILE
#include <cstdlib>
#include <limits>

#include <jpeglib.h>

#include <jerror.h>

#include "carillon/core/error.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

// libjpeg 7 and later name these fields differently.
#if JPEG_LIB_VERSION >= 70
int scaled_size(const jpeg_component_info& component) { return component.DCT_h_scaled_size; }
int least_scaled_size(const jpeg_decompress_struct& jpeg) { return jpeg.min_DCT_h_scaled_size; }
#else
int scaled_size(const jpeg_component_info& component) { return component.DCT_scaled_size; }
int least_scaled_size(const jpeg_decompress_struct& jpeg) { return jpeg.min_DCT_scaled_size; }
#endif

/// libjpeg's error handler. It must not return to libjpeg. Therefore it leaves libjpeg's C functions by longjmp.
struct JpegErrors {
  jpeg_error_mgr manager;  // must be the first member, because libjpeg passes its address
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> text;
};

[[noreturn]] void leave(j_common_ptr codec) {
  auto* errors = reinterpret_cast<JpegErrors*>(codec->err);
  errors->manager.format_message(codec, errors->text.data());
  std::longjmp(errors->jump, 1);
}

/// Treats warnings about damage as errors, because otherwise libjpeg would fill in the missing pixels.
void on_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  switch (codec->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      leave(codec);
    default:
      break;  // not an error: extra bytes between markers, or an unknown version; other decoders also ignore these
  }
}

void no_output(j_common_ptr /*codec*/) {}

/// Runs `work` and converts libjpeg's errors to exceptions. `work` must not own an object that has a destructor.
template <typename Work>
void guarded(JpegErrors& errors, const Work& work) {
  if (setjmp(errors.jump) != 0) fail(ExitCode::data, "is damaged: {}", errors.text.data());
  work();
}

jpeg_error_mgr* install(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave;
  errors.manager.emit_message = on_message;
  errors.manager.output_message = no_output;
  return &errors.manager;
}

/// The decompressor of one file.
class JpegReader {
 public:
  explicit JpegReader(std::span<const std::uint8_t> file) {
    jpeg_.err = install(errors_);
    guarded(errors_, [&] {
      jpeg_create_decompress(&jpeg_);
      jpeg_mem_src(&jpeg_, file.data(), file.size());
    });
    progress_.progress_monitor = limit_scans;
    jpeg_.progress = &progress_;
    try {
      guarded(errors_, [&] { jpeg_read_header(&jpeg_, TRUE); });
    } catch (...) {
      jpeg_destroy_decompress(&jpeg_);
      throw;
    }
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  PictureInfo info() const {
    return {PictureFormat::jpeg, jpeg_.image_height, jpeg_.image_width, jpeg_.num_components};
  }

  void decode(const PartRequest& request, DecodedPart& part);

 private:
  static void limit_scans(j_common_ptr codec) {
    const auto* jpeg = reinterpret_cast<j_decompress_ptr>(codec);
    const std::int64_t scans = jpeg->input_scan_number;
    const std::int64_t pixels = std::int64_t{jpeg->image_height} * jpeg->image_width;
    if (scans <= max_jpeg_scans && scans * pixels <= max_jpeg_scan_pixels) return;
    auto* errors = reinterpret_cast<JpegErrors*>(codec->err);
    std::snprintf(errors->text.data(), errors->text.size(), "it has too many scans");
    std::longjmp(errors->jump, 1);
  }

  /// True if jpeg_crop_scanline (libjpeg-turbo 2.1) decodes columns correctly. The columns are wrong if a component
  /// must be upsampled although its scaled size is not the smallest, for example 4:1:0 at half size.
  bool may_crop() const {
    for (int i = 0; i < jpeg_.num_components; ++i) {
      const jpeg_component_info& component = jpeg_.comp_info[i];
      const int size = scaled_size(component), least = least_scaled_size(jpeg_);
      if (size == least) continue;
      if (component.h_samp_factor * size != jpeg_.max_h_samp_factor * least) return false;
      if (component.v_samp_factor * size != jpeg_.max_v_samp_factor * least) return false;
    }
    return true;
  }

  bool is_cmyk() const { return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK; }

  jpeg_decompress_struct jpeg_{};
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
};

/// Returns the factor by which the decoder reduces the picture for a request (DecodedPart::reduction).
std::int64_t reduction_for(const PartRequest& request) {
  for (const std::int64_t reduction : {8, 4, 2}) {
    const auto factor = static_cast<double>(reduction);
    if (request.vertical_scale * factor <= 1.0 && request.horizontal_scale * factor <= 1.0) return reduction;
  }
  return 1;
}

/// Converts Adobe's inverted CMYK to RGB in place.
void cmyk_to_rgb(std::uint8_t* pixels, std::int64_t count) {
  const auto multiply = [](int a, int b) {
    const int product = a * b + 128;  // a b / 255, rounded
    return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
  };
  for (std::int64_t i = 0; i < count; ++i, pixels += 4) {
    for (int c = 0; c < 3; ++c) pixels[c] = multiply(pixels[c], pixels[3]);
  }
}

void JpegReader::decode(const PartRequest& request, DecodedPart& part) {
  const std::int64_t reduction = reduction_for(request);
  jpeg_.scale_num = 1;
  jpeg_.scale_denom = static_cast<unsigned>(reduction);
  jpeg_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_EXT_RGBX;
  jpeg_.dct_method = JDCT_ISLOW;
  guarded(errors_, [&] { jpeg_start_decompress(&jpeg_); });

  const auto last = [&](std::int64_t first, std::int64_t count, std::int64_t size) {
    return std::min((first + count + reduction - 1) / reduction, size);
  };
  const PictureBox& needed = request.needed;
  // Subsampled colours are interpolated, so the decoder needs one more neighbour on each side.
  const std::int64_t margin = 2 * jpeg_.max_h_samp_factor;
  auto column = static_cast<JDIMENSION>(std::max<std::int64_t>(0, needed.column - margin) / reduction);
  const std::int64_t end_column = last(needed.column, needed.width + margin, jpeg_.output_width);
  auto width = static_cast<JDIMENSION>(end_column - column);
  if (width < jpeg_.output_width && may_crop()) {
    guarded(errors_, [&] { jpeg_crop_scanline(&jpeg_, &column, &width); });
  } else {
    column = 0;
    width = jpeg_.output_width;
  }
  const auto row = static_cast<JDIMENSION>(needed.row / reduction);
  const std::int64_t end_row = last(needed.row, needed.height, jpeg_.output_height);
  place_part(part, {row, column, end_row - row, width}, reduction);
  guarded(errors_, [&] {
    if (row > 0) jpeg_skip_scanlines(&jpeg_, row);
    while (jpeg_.output_scanline < static_cast<JDIMENSION>(end_row)) {
      JSAMPROW line = part.pixels.data() + (jpeg_.output_scanline - row) * std::size_t{width} * 4;
      jpeg_read_scanlines(&jpeg_, &line, 1);
    }
    if (jpeg_.output_scanline == jpeg_.output_height) jpeg_finish_decompress(&jpeg_);
  });
  if (is_cmyk()) cmyk_to_rgb(part.pixels.data(), part.height * part.width);
}

}  // namespace

PictureInfo jpeg_info(std::span<const std::uint8_t> file) { return JpegReader(file).info(); }

void decode_jpeg(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part) {
  JpegReader(file).decode(request, part);
}

std::string encode_jpeg(const Picture& picture, int quality) {
  check_pixels(picture);
  jpeg_compress_struct jpeg{};
  JpegErrors errors{};
  jpeg.err = install(errors);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  struct Release {
    jpeg_compress_struct& jpeg;
    unsigned char*& memory;
    bool owns_memory = false;  ///< false: libjpeg has failed and may have freed the memory
    ~Release() {
      jpeg_destroy_compress(&jpeg);
      if (owns_memory) std::free(memory);
    }
  } release{jpeg, memory};
  guarded(errors, [&] {
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &memory, &bytes);
    jpeg.image_height = static_cast<JDIMENSION>(picture.height);
    jpeg.image_width = static_cast<JDIMENSION>(picture.width);
    jpeg.input_components = static_cast<int>(picture.channels);
    jpeg.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg.optimize_coding = TRUE;
    jpeg_start_compress(&jpeg, TRUE);
    const std::size_t stride = static_cast<std::size_t>(picture.width * picture.channels);
    while (jpeg.next_scanline < jpeg.image_height) {
      JSAMPROW line = const_cast<JSAMPROW>(picture.pixels.data() + jpeg.next_scanline * stride);
      jpeg_write_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_compress(&jpeg);
  });
  release.owns_memory = true;
  return {reinterpret_cast<const char*>(memory), bytes};
}

}  // namespace carillon
