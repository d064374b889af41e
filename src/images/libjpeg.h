// libjpeg's headers, and what its versions name differently.
#pragma once

#include <cstdio>  // before jpeglib.h, which wants FILE

#include <jpeglib.h>

namespace carillon {

#if JPEG_LIB_VERSION >= 70
inline int scaled_size(const jpeg_component_info& component) { return component.DCT_h_scaled_size; }
inline int least_scaled_size(const jpeg_decompress_struct& jpeg) { return jpeg.min_DCT_h_scaled_size; }
#else
inline int scaled_size(const jpeg_component_info& component) { return component.DCT_scaled_size; }
inline int least_scaled_size(const jpeg_decompress_struct& jpeg) { return jpeg.min_DCT_scaled_size; }
#endif

}  // namespace carillon
