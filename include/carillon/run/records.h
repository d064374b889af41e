// Records: how training and evaluation open the data set that a program is for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carillon/comm/mpi.h"
#include "carillon/data/dataset.h"
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

struct RecordOptions {
  std::string image_key, label_key;  ///< features of a record; empty: the form's
  CacheMode cache = CacheMode::automatic;
};

/// Whether `patterns` ask for images of noise in place of records: `--data synthetic`.
bool is_synthetic(const std::vector<std::string>& patterns);
/// What is said in each line of a run on them.
inline constexpr const char* synthetic_note = " [synthetic data]";

/// The records that `patterns` name, of this form. Errors: those of Dataset::open, on this rank.
Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi);

}  // namespace carillon
