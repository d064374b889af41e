// Fuzzes BMP files: any bytes are decoded, within their memory, or rejected.
#include "carillon/core/error.h"
#include "src/data/convert/picture_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static DecodedPart whole;
  try {
    read_bmp({data, size}, {}, whole);
  } catch (const UnsupportedPicture&) {
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
  }
  return 0;
}
