// Fuzzes the decoder of pictures. For any bytes, the decoder must either decode them, as a whole and in part, or reject
// them.
#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/images/view.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  const std::span<const std::uint8_t> file(data, size);
  static ViewMemory memory;
  try {
    const PictureInfo info = picture_info(file);
    if (info.height * info.width > (std::int64_t{1} << 20)) return 0;  // slow, and it would test nothing new
    decode_whole(file, memory.part);
    std::vector<std::uint8_t> pixels(3 * 16 * 24);
    const PictureBox part{info.height / 3, info.width / 4, (info.height + 1) / 2, (info.width + 1) / 2};
    for (const Resampling resampling : {Resampling::antialiased, Resampling::top_left_aligned}) {
      render_view(file, central_view(info, 32, 16, 24), resampling, memory, pixels);
      render_view(
          file, {.part = part, .resized_height = 16, .resized_width = 24, .height = 16, .width = 24, .mirrored = true},
          resampling, memory, pixels);
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
  }
  return 0;
}
