// Fuzzes parse_example against protobuf's generated parser: for any bytes, both must return the same error, label and
// image.
#include "src/data/records/example_proto.h"
#include "tests/data/example_verdict.h"
#include "tests/support/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const carillon::ExampleKeys keys{.image = "i", .label = "l"};
  const std::span record(data, size);
  const auto expected = carillon::verdict_on(carillon::parse_example_generated, record, keys);
  carillon::fuzz_check(carillon::verdict_on(carillon::parse_example, record, keys) == expected);
  return 0;
}
