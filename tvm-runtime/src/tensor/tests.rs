//! Tests of tensors.

use ndarray::{Array, Array2, Ix2, IxDyn, array};

use super::*;

#[test]
fn sizes_that_do_not_fit_are_errors() {
    for (shape, bytes) in [
        (&[][..], Some(4)),
        (&[3, 5], Some(60)),
        (&[0, i64::MAX, i64::MAX], Some(0)),
        (&[0, -1], None),
        (&[-1], None),
        (&[i64::MAX], None),
        (&[1 << 31, 1 << 31], None),
        (&[i64::MAX, 2], None),
    ] {
        assert_eq!(byte_size(shape, DataType::F32), bytes, "{shape:?}");
    }
    assert!(matches!(Tensor::zeros(&[i64::MAX], DataType::F32), Err(RuntimeError::BadShape { .. })));
    if cfg!(not(miri)) {
        assert!(matches!(Tensor::zeros(&[1 << 60], DataType::U8), Err(RuntimeError::OutOfMemory { .. })));
    }
    let err = Tensor::from_vec(vec![1f32; 5], &[2, 3]).unwrap_err();
    assert_eq!(err.to_string(), "shape [2, 3] of f32 holds 24 bytes, got 20");
}

/// Large memory begins with a large page, so that it has as many of them wherever the system places it.
#[test]
fn large_memory_begins_with_a_large_page() {
    for len in [LARGE_PAGE - 1, LARGE_PAGE, LARGE_PAGE + 1, 3 * LARGE_PAGE - 7] {
        let mut storage = Storage::alloc(len, 256, Device::cpu()).unwrap();
        let align = if len < LARGE_PAGE || cfg!(miri) { 256 } else { LARGE_PAGE };
        assert_eq!((storage.as_ptr().addr() % align, storage.len()), (0, len));
        assert!(storage.is_own());
        let other = storage.clone();
        assert!(storage.bytes_mut().is_none(), "shared memory is not written to");
        drop(other);
        let bytes = storage.bytes_mut().unwrap();
        assert!(bytes.iter().step_by(4096).all(|&byte| byte == 0) && bytes[len - 1] == 0);
        bytes.fill(1);
    }
    let too_large = Storage::alloc(usize::MAX - 5, 64, Device::cpu()).unwrap_err();
    assert!(matches!(too_large, RuntimeError::OutOfMemory { .. }), "{too_large}");
}

#[test]
fn memory_is_aligned_and_zero() {
    for shape in [&[][..], &[1], &[7, 3], &[0], &[1000]] {
        let tensor = Tensor::zeros(shape, DataType::F64).unwrap();
        assert_eq!(tensor.data_ptr() as usize % ALIGNMENT, 0);
        assert!(tensor.as_slice::<f64>().unwrap().iter().all(|&x| x == 0.0));
        assert_eq!(tensor.len() as i64, shape.iter().product::<i64>());
    }
}

#[test]
fn writing_copies_shared_data() {
    let mut a = Tensor::from_vec(vec![1i32, 2, 3], &[3]).unwrap();
    let at = a.data_ptr();
    a.as_mut_slice::<i32>().unwrap()[0] = 7;
    assert_eq!(a.data_ptr(), at, "the only handle writes in place");
    let b = a.clone();
    let flat = a.reshape(&[1, 3]).unwrap();
    a.as_mut_slice::<i32>().unwrap()[1] = 9;
    assert_eq!(a.as_slice::<i32>().unwrap(), [7, 9, 3]);
    assert_eq!(b.as_slice::<i32>().unwrap(), [7, 2, 3]);
    assert_eq!(flat.as_slice::<i32>().unwrap(), [7, 2, 3]);
    assert!(a.reshape(&[4]).is_err());
    assert_eq!(b.clone(), flat.reshape(&[3]).unwrap());
    assert_ne!(a, b);
}

#[test]
fn slices_are_typed() {
    let a = Tensor::from_bytes(&[1, 0, 2, 0], &[2], DataType::I16).unwrap();
    assert_eq!(a.as_slice::<i16>().unwrap(), [1, 2]);
    assert_eq!(a.as_slice::<f32>().unwrap_err().to_string(), "tensor of element type i16, expected f32");
    assert!(Tensor::from_bytes(&[1, 2], &[2], DataType::BOOL).is_err());
    assert_eq!(Tensor::scalar(true).as_slice::<bool>().unwrap(), [true]);
    let odd = Tensor::from_storage(a.storage().clone(), 2, &[2], DataType::U8).unwrap();
    assert_eq!(odd.as_slice::<u8>().unwrap(), [2, 0]);
    let bools = Tensor::from_storage(a.storage().clone(), 0, &[4], DataType::BOOL).unwrap();
    assert!(bools.as_slice::<bool>().is_err(), "bytes 1 0 2 0 are not bools");
    assert!(Tensor::from_storage(a.storage().clone(), 1, &[1], DataType::I16).is_err());
    assert!(Tensor::from_storage(a.storage().clone(), 3, &[2], DataType::U8).is_err());
    assert!(Tensor::from_storage(a.storage().clone(), usize::MAX, &[0], DataType::U8).is_err());
    assert_eq!(format!("{a:?}"), "Tensor<i16>[2] [1, 2]");
}

#[test]
fn ndarray_views_share_memory() {
    let mut a = Tensor::from_vec(vec![1f32, 2., 3., 4., 5., 6.], &[2, 3]).unwrap();
    let view = a.view::<f32, Ix2>().unwrap();
    assert_eq!(view, array![[1., 2., 3.], [4., 5., 6.]]);
    assert_eq!(view.as_ptr().cast::<u8>(), a.data_ptr().cast_const());
    a.view_mut::<f32, IxDyn>().unwrap()[[1, 0]] = 40.;
    assert_eq!(a.view::<f32, Ix2>().unwrap()[[1, 0]], 40.);
    assert_eq!(a.view::<f32, ndarray::Ix1>().unwrap_err().to_string(), "tensor of rank 2, expected rank 1");
    assert!(a.view::<f64, Ix2>().is_err());
    let scalar = Tensor::scalar(5u8);
    assert_eq!(scalar.to_array::<u8>().unwrap(), Array::from_elem(IxDyn(&[]), 5));
    let empty = Tensor::zeros(&[0, 3], DataType::F32).unwrap();
    assert_eq!(empty.view::<f32, Ix2>().unwrap().dim(), (0, 3));
}

#[test]
fn arrays_become_tensors() {
    let a = Array2::from_shape_fn((3, 4), |(i, j)| (i * 4 + j) as i64);
    let at = a.as_ptr();
    let tensor = Tensor::from_array(a.clone()).unwrap();
    assert_eq!(tensor.view::<i64, Ix2>().unwrap(), a);
    let moved = Tensor::from_array(a).unwrap();
    assert_eq!(moved.data_ptr().cast_const().cast(), at, "taken over without copying");
    let a = moved.view::<i64, Ix2>().unwrap();
    for part in
        [a.t().to_owned(), a.t().into_owned().reversed_axes(), a.slice(ndarray::s![1.., ..2]).to_owned()]
    {
        assert_eq!(Tensor::from_array(part.clone()).unwrap().view::<i64, Ix2>().unwrap(), part);
    }
    let mut cut = moved.view::<i64, Ix2>().unwrap().to_owned();
    cut.slice_collapse(ndarray::s![1..2, ..]);
    assert_eq!(Tensor::from_array(cut.clone()).unwrap().view::<i64, Ix2>().unwrap(), cut);
}

#[test]
fn dlpack_round_trip() {
    let a = Tensor::from_vec(vec![1f32, 2., 3., 4.], &[2, 2]).unwrap();
    // SAFETY: exported by us just now, consumed once.
    let b = unsafe { Tensor::from_dlpack(a.clone().to_dlpack()) }.unwrap();
    assert_eq!(a, b);
    assert_eq!(a.data_ptr(), b.data_ptr());
    assert_eq!(a.storage().handles(), 1);
    assert_eq!(a.handles(), 2, "the export is alive");
    drop(b);
    assert_eq!(a.handles(), 1, "the deleter ran");
    let exported = a.clone().to_dlpack_versioned();
    // SAFETY: as above.
    let (flags, b) = unsafe { ((*exported.as_ptr()).flags, Tensor::from_dlpack_versioned(exported)) };
    assert_eq!(flags, 1, "shared, so read-only");
    let mut b = b.unwrap();
    b.as_mut_slice::<f32>().unwrap()[0] = 9.;
    assert_eq!(a.as_slice::<f32>().unwrap()[0], 1., "imported memory is not written");
}

#[test]
fn dlpack_refuses_what_it_cannot_hold() {
    let mut strides = [1i64, 2];
    type Break<'a> = Box<dyn FnOnce(&mut DLTensor) + 'a>;
    let cases: Vec<(&str, Break<'_>)> = vec![
        ("compact", Box::new(|t| t.strides = strides.as_mut_ptr())),
        ("device", Box::new(|t| t.device.kind = 7)),
        ("negative rank", Box::new(|t| t.ndim = -1)),
        ("aligned", Box::new(|t| t.data = t.data.wrapping_byte_add(1))),
        ("null data", Box::new(|t| t.data = std::ptr::null_mut())),
        ("no shape", Box::new(|t| t.shape = std::ptr::null_mut())),
        // SAFETY: writes plain bytes in place of the type, as a foreign producer may.
        ("element type", Box::new(|t| unsafe { (&raw mut t.dtype).cast::<u8>().write(99) })),
    ];
    for (what, spoil) in cases {
        let a = Tensor::from_vec(vec![1f32, 2., 3., 4.], &[2, 2]).unwrap();
        let managed = a.clone().to_dlpack();
        // SAFETY: exported by us; on an error we still own it and call the deleter once.
        unsafe {
            spoil(&mut (*managed.as_ptr()).dl_tensor);
            let err = Tensor::from_dlpack(managed).unwrap_err();
            assert!(err.to_string().contains(what), "{what}: {err}");
            assert_eq!(a.handles(), 2);
            (*managed.as_ptr()).deleter.unwrap()(managed.as_ptr());
        }
        assert_eq!(a.handles(), 1);
    }
}
