// Any bytes as a JPEG: where JpegHuffmanReader does not give up, libjpeg alone makes the same of them.
#include "carillon/core/error.h"
#include "carillon/images/decode.h"
#include "tests/images/libjpeg_decoding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  const std::span<const std::uint8_t> file(data, size);
  static JpegHuffmanReader huffman;
  PictureInfo info;
  try {
    info = picture_info(file);
  } catch (const Error&) {
    return 0;
  }
  if (info.format != PictureFormat::jpeg || info.height * info.width > (1 << 16)) return 0;  // slow, and nothing new
  const auto height = static_cast<int>(info.height), width = static_cast<int>(info.width);
  for (const unsigned reduction : {1u, 2u, 4u, 8u}) {
    for (const Box& box : {Box{0, 0, height, width}, Box{height / 3, width / 3, height / 3, width / 3}}) {
      const Outcome ours = decoded(file, box, reduction, &huffman);
      if (huffman.gave_up() || !ours.installed) continue;
      const Outcome theirs = decoded(file, box, reduction, nullptr);
      if (!same(ours, theirs)) __builtin_trap();
    }
  }
  return 0;
}
