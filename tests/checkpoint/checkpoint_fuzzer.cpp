// libFuzzer target: for any input, the checkpoint loader must neither crash nor hang. It must accept only the valid
// checkpoint, as it was written.
//
// Inputs start from a valid checkpoint. In half of the mutations, the header's checksum is corrected, so that the
// fuzzer also tests the header's fields. The rest of a checkpoint is an HDF5 file (the image). If its CRC32C is wrong,
// the loader rejects the checkpoint before HDF5 reads a byte. The target ignores inputs with a changed image and a
// correct CRC32C, because they would fuzz HDF5.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/checkpoint/checkpoint_format.h"
#include "src/core/crc32c.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace carillon {
namespace {

const std::vector<std::byte>& valid_checkpoint() {
  static const auto bytes = encode_checkpoint({.model = "mnist",
                                               .global_step = 7,
                                               .seed = 1,
                                               .stream_position = 9,
                                               .options_json = "{}",
                                               .variables = {{"layer1/weights", {2, 2}, {1, 2, 3, 4}}},
                                               .moving_averages = {},
                                               .optimizer = {}});
  return bytes;
}

void load(std::span<const std::byte> file) {
  try {
    const auto image = verified_image(file, "checkpoint");
    const auto valid = std::span(valid_checkpoint()).subspan(checkpoint_header_bytes);
    if (!std::ranges::equal(image, valid)) return;  // a changed image with a correct CRC32C
    if (parse_hdf5_image(image, "checkpoint").global_step != 7) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  carillon::load(std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const auto& valid = carillon::valid_checkpoint();
  if (size < carillon::checkpoint_header_bytes && seed % 4 != 0) {
    size = std::min(valid.size(), max_size);
    std::memcpy(data, valid.data(), size);
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size >= carillon::checkpoint_header_bytes && seed % 2 == 0) {
    const auto crc = carillon::crc32c(std::as_bytes(std::span(data, carillon::checkpoint_header_bytes - sizeof(int))));
    std::memcpy(data + carillon::checkpoint_header_bytes - sizeof crc, &crc, sizeof crc);
  }
  return size;
}
