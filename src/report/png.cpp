#include "src/report/png.h"

#include <png.h>

#include "carillon/core/error.h"

namespace carillon {

std::string encode_png(const Picture& picture) {
  check(picture.channels == 1 || picture.channels == 3, "a picture has 1 or 3 channels");
  check(picture.pixels.size() == static_cast<std::size_t>(picture.height * picture.width * picture.channels),
        "a picture has height x width x channels pixels");
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
