// Fuzzes parse_example against protobuf's generated parser: the same verdict, text, label and image on any bytes.
#include <cstdlib>

#include "src/data/example_generated.h"
#include "tests/data/example_verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const carillon::ExampleKeys keys{.image = "i", .label = "l"};
  const std::span record(data, size);
  const auto expected = carillon::verdict_on(carillon::parse_example_generated, record, keys);
  if (carillon::verdict_on(carillon::parse_example, record, keys) != expected) std::abort();
  return 0;
}
