// Decoding a part of a JPEG by libjpeg's own calls, with a JpegHuffmanReader in its place or without.
#pragma once

#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <span>
#include <vector>

#include "src/images/jpeg_huffman.h"

namespace carillon {

struct Box {
  int row = 0, column = 0, height = 0, width = 0;
};

struct Outcome {
  bool installed = false, ended = false;
  int damage = 0;  ///< the first that libjpeg told: JWRN_..., but for what is extraneous
  std::vector<std::uint8_t> pixels;
};

struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg hands its address back
  std::jmp_buf jump;
  int damage = 0;
};

[[noreturn]] inline void leave(j_common_ptr codec) { std::longjmp(reinterpret_cast<Errors*>(codec->err)->jump, 1); }
inline void listen(j_common_ptr codec, int level) {
  const int code = codec->err->msg_code;
  int& damage = reinterpret_cast<Errors*>(codec->err)->damage;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && damage == 0) damage = code;
}

/// Rows of `box` of the picture reduced by `reduction`, and the file to its end where the box reaches to the last row.
inline void decode(std::span<const std::uint8_t> file, Box box, unsigned reduction, JpegHuffmanReader* huffman,
                   Outcome& outcome) {
  jpeg_decompress_struct jpeg{};
  Errors errors{};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave;
  errors.manager.emit_message = listen;
  if (setjmp(errors.jump) != 0) {
    outcome.ended = true;
  } else {
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, file.data(), file.size());
    jpeg_read_header(&jpeg, TRUE);
    jpeg.scale_num = 1;
    jpeg.scale_denom = reduction;
    jpeg_start_decompress(&jpeg);
    const auto reduced = [&](int length) { return static_cast<JDIMENSION>(length) / reduction; };
    JDIMENSION column = reduced(box.column), width = std::max(reduced(box.width), 1u);
    if (width < jpeg.output_width) {
      jpeg_crop_scanline(&jpeg, &column, &width);
    }
    if (huffman != nullptr) outcome.installed = huffman->install(jpeg, column, width);
    const JDIMENSION row = reduced(box.row), end = std::min(row + reduced(box.height) + 1, jpeg.output_height);
    if (row > 0) jpeg_skip_scanlines(&jpeg, row);
    const std::size_t stride = std::size_t{jpeg.output_width} * static_cast<std::size_t>(jpeg.output_components);
    outcome.pixels.resize(stride * (end - row));
    while (jpeg.output_scanline < end) {
      JSAMPROW line = outcome.pixels.data() + (jpeg.output_scanline - row) * stride;
      jpeg_read_scanlines(&jpeg, &line, 1);
    }
    if (end == jpeg.output_height) jpeg_finish_decompress(&jpeg);
  }
  outcome.damage = errors.damage;
  jpeg_destroy_decompress(&jpeg);
}

inline Outcome decoded(std::span<const std::uint8_t> file, Box box, unsigned reduction, JpegHuffmanReader* huffman) {
  Outcome outcome;
  decode(file, box, reduction, huffman, outcome);
  return outcome;
}

/// Whether they have the same pixels, and the same damage was told. libjpeg alone looks some bytes further, and may
/// find the file's end there that no wanted row needs.
inline bool same(const Outcome& ours, const Outcome& theirs) {
  return ours.pixels == theirs.pixels && ours.ended == theirs.ended &&
         (ours.damage == theirs.damage || (ours.damage == 0 && theirs.damage == JWRN_JPEG_EOF));
}

}  // namespace carillon
