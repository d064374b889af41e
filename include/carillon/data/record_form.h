// RecordForm: which decoder reads the records of a program, and what the records contain.
#pragma once

#include <functional>
#include <memory>

#include "carillon/data/decoder.h"

namespace carillon {

enum class RecordUse { training, evaluation };

/// Makes the decoder of records.
using MakeDecoder = std::function<std::unique_ptr<RecordDecoder>(RecordSchema schema, RecordUse use)>;

/// The form of a program's records.
struct RecordForm {
  MakeDecoder make_decoder;
  RecordSchema schema;
  bool decoder_distorts = false;  ///< what there is to distort of images in training, which a network then leaves be
};

/// Makers of decoders of grey and of planar images (data/decoder.h).
std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse use);
std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse use);

}  // namespace carillon
