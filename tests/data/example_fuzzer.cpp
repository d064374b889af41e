// Fuzzes decode_example against protobuf's generated parser: the same verdict, text, label and image on any bytes.
#include <cstdlib>

#include "tests/data/example_verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const carillon::RecordSchema schema{.image_key = "i", .label_key = "l", .image_bytes = 4, .class_count = 10};
  const std::span record(data, size);
  const auto expected = carillon::verdict_on(carillon::decode_example_generated, record, schema);
  if (carillon::verdict_on(carillon::decode_example, record, schema) != expected) std::abort();
  return 0;
}
