// Draws the plots of a report from the JSON inside the page, and lets tables be sorted and filtered.
// Loads nothing. Without scripts the page still has its text and tables.
(function () {
  'use strict';
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById('data').textContent);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const drawn = [];  // things with destroy()

  // ---- figures as an engineer writes them -------------------------------------------------------------------------
  function three(x) {
    const a = Math.abs(x);
    if (a >= 1e6) return three(x / 1e6) + 'M';
    if (a >= 100) return Math.round(x).toLocaleString('en-US');
    return String(Number(x.toPrecision(3)));
  }
  function ms(x) {
    if (Math.abs(x) < 999.5) return three(x) + ' ms';
    return x < 120000 ? three(x / 1000) + ' s' : three(x / 60000) + ' min';
  }
  function clock(s) {
    const two = (x) => String(Math.floor(x)).padStart(2, '0');
    return s >= 3600 ? Math.floor(s / 3600) + ':' + two(s % 3600 / 60) + ':' + two(s % 60) : Math.floor(s / 60) + ':' + two(s % 60);
  }
  const percent = (share) => three(share * 100) + ' %';

  // ---- Chart.js, set up once ---------------------------------------------------------------------------------------
  // Lines and bands that mean something: SLO targets, events, the peak window. x and y are in axis units.
  const marks = {
    id: 'marks',
    beforeDatasetsDraw(chart, args, options) {
      const { ctx, chartArea: area, scales } = chart;
      ctx.save();
      ctx.fillStyle = css('--soft');
      for (const band of options.bands || []) {
        const a = Math.max(area.left, scales.x.getPixelForValue(band.from));
        const b = Math.min(area.right, scales.x.getPixelForValue(band.to));
        ctx.fillRect(a, area.top, b - a, area.height);
        ctx.fillStyle = css('--muted');
        ctx.font = '11px ' + Chart.defaults.font.family;
        ctx.fillText(band.label || '', a + 4, area.top + 12);
      }
      ctx.restore();
    },
    afterDatasetsDraw(chart, args, options) {
      const { ctx, chartArea: area, scales } = chart;
      ctx.save();
      ctx.font = '11px ' + Chart.defaults.font.family;
      (options.lines || []).forEach((line, i) => {
        const vertical = line.x !== undefined;
        const at = vertical ? scales.x.getPixelForValue(line.x) : scales.y.getPixelForValue(line.y);
        if (!(vertical ? at >= area.left - 1 && at <= area.right + 1 : at >= area.top - 1 && at <= area.bottom + 1)) return;
        ctx.strokeStyle = ctx.fillStyle = line.color || css('--muted');
        ctx.lineWidth = 1.25;
        ctx.setLineDash([5, 4]);
        ctx.beginPath();
        if (vertical) { ctx.moveTo(at, area.top); ctx.lineTo(at, area.bottom); }
        else { ctx.moveTo(area.left, at); ctx.lineTo(area.right, at); }
        ctx.stroke();
        if (!line.label || (line.roomy && area.width < 420)) return;
        ctx.setLineDash([]);
        const width = ctx.measureText(line.label).width;
        let x = area.right - width - 4, y = at - 5;
        if (vertical) {
          x = at + 4 + width > area.right ? at - width - 4 : at + 4;
          y = area.top + 11 + (line.row === undefined ? i : line.row) * 14;
        }
        ctx.globalAlpha = 0.85;
        ctx.fillStyle = css('--card');
        ctx.fillRect(x - 2, y - 10, width + 4, 13);
        ctx.globalAlpha = 1;
        ctx.fillStyle = line.color || css('--muted');
        ctx.fillText(line.label, x, y);
      });
      ctx.restore();
    },
  };
  // Confidence bars of the first dataset: options.half[i] in axis units.
  const whiskers = {
    id: 'whiskers',
    afterDatasetsDraw(chart, args, options) {
      if (!options.half) return;
      const { ctx, scales } = chart;
      ctx.save();
      ctx.strokeStyle = css('--c1');
      ctx.lineWidth = 1.5;
      chart.getDatasetMeta(0).data.forEach((point, i) => {
        const value = chart.data.datasets[0].data[i].y, half = options.half[i];
        if (!(half > 0)) return;
        const top = scales.y.getPixelForValue(value + half);
        const bottom = scales.y.getPixelForValue(Math.max(value - half, scales.y.min));
        ctx.beginPath();
        ctx.moveTo(point.x, top); ctx.lineTo(point.x, bottom);
        ctx.moveTo(point.x - 5, top); ctx.lineTo(point.x + 5, top);
        ctx.moveTo(point.x - 5, bottom); ctx.lineTo(point.x + 5, bottom);
        ctx.stroke();
      });
      ctx.restore();
    },
  };

  function axis(title, extra) {
    return Object.assign({
      title: { display: Boolean(title), text: title, color: css('--muted'), font: { size: 12 } },
      grid: { color: css('--line'), borderColor: css('--line'), tickLength: 4 },
      ticks: { color: css('--muted'), maxRotation: 0, autoSkipPadding: 14, font: { size: 11 } },
    }, extra || {});
  }
  function ticks(callback, extra) {
    return Object.assign({ color: css('--muted'), maxRotation: 0, autoSkipPadding: 14, font: { size: 11 }, callback }, extra || {});
  }
  const niceTimeStep = (span) => [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].find((s) => span / s <= 8);
  function everyStep(from, to, step) {
    const values = [];
    for (let v = Math.ceil(from / step) * step; v <= to + step * 1e-6; v += step) values.push({ value: v });
    return values;
  }
  function timeAxis(end) {
    const span = end > 0 ? end : 1;
    return axis('', { type: 'linear', min: 0, max: span, ticks: ticks((v) => clock(v)),
      afterBuildTicks(scale) { scale.ticks = everyStep(0, span, niceTimeStep(span) || span); } });
  }
  function line(label, points, color, extra) {
    return Object.assign({ label, data: points, borderColor: color, backgroundColor: color, borderWidth: 1.75, pointRadius: 0,
      pointHitRadius: 6, tension: 0 }, extra || {});
  }
  const series = (values, step) => values.map((y, i) => ({ x: i * step, y }));
  const faded = (color, alpha) => color + Math.round(alpha * 255).toString(16).padStart(2, '0');
  function base(scales, plugins) {
    return {
      responsive: true, maintainAspectRatio: false, animation: false, parsing: true,
      interaction: { mode: 'nearest', axis: 'x', intersect: false },
      scales,
      plugins: Object.assign({
        legend: { align: 'start', labels: { color: css('--ink'), usePointStyle: true, pointStyle: 'line', pointStyleWidth: 26, font: { size: 12 },
          generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart).map((item) =>
            Object.assign(item, { lineDash: chart.data.datasets[item.datasetIndex].borderDash || [], lineWidth: 2 })) } },
        tooltip: { backgroundColor: css('--ink'), titleColor: css('--bg'), bodyColor: css('--bg'), displayColors: false },
      }, plugins || {}),
    };
  }
  const tooltip = (title, label) => ({ backgroundColor: css('--ink'), titleColor: css('--bg'), bodyColor: css('--bg'),
    displayColors: false, callbacks: { title: (items) => items.length ? title(items[0]) : '', label } });
  const atTime = (item) => clock(item.parsed.x);

  // ---- the plots: name -> Chart.js configuration, from the figure's data-run where there are several runs --------------
  const eventLines = (run) => (run.events || []).slice(0, 12).map((e, i) => ({ x: e.t, label: String(i + 1), row: i % 3 }));
  const plots = {
    rate() {
      const t = data.traffic, end = t.rate.length * t.window_s;
      return {
        type: 'line',
        data: { datasets: [line('requests/s', series(t.rate, t.window_s), css('--c1'), { fill: true, backgroundColor: faded(css('--c1'), 0.16) })] },
        options: base({ x: timeAxis(end), y: axis('requests/s', { beginAtZero: true }) }, {
          legend: { display: false }, tooltip: tooltip(atTime, (i) => three(i.parsed.y) + ' requests/s'),
          marks: { bands: t.peak ? [{ from: t.peak[0], to: t.peak[1], label: 'peak window' }] : [] } }),
      };
    },
    lengths() {
      const l = data.traffic.lengths;
      const bar = (label, values, color) => ({ label, data: values, backgroundColor: color, borderRadius: 3, maxBarThickness: 34 });
      return {
        type: 'bar',
        data: { labels: l.labels, datasets: [bar('input', l.input, css('--c1')), bar('output', l.output, css('--c5')), bar('context', l.context, css('--c3'))] },
        options: base({ x: axis(''), y: axis('tokens', { beginAtZero: true, ticks: ticks((v) => three(v)) }) }, {
          legend: { align: 'start', labels: { color: css('--ink'), boxWidth: 10, boxHeight: 10, font: { size: 12 } } },
          tooltip: tooltip((i) => i.label, (i) => i.dataset.label + ' ' + three(i.parsed.y) + ' tokens') }),
      };
    },
    search() {
      const s = data.search, colors = s.n.map((n, i) => s.share[i] >= 1 ? css('--c3') : s.share[i] > 0 ? css('--c5') : css('--c2'));
      const shapes = s.n.map((n, i) => s.share[i] >= 1 ? 'circle' : s.share[i] > 0 ? 'rectRot' : 'triangle');
      const low = s.n[0] - 0.5, high = Math.max(s.n[s.n.length - 1], s.final) + 0.5;
      const lines = s.slo ? [{ y: s.slo, color: css('--bad'), label: 'SLO ' + ms(s.slo) }] : [];
      lines.push({ x: s.answer, label: s.answer + ' meet it', row: 0 });
      if (s.final !== s.answer) lines.push({ x: s.final, label: s.final + ' with headroom', row: 2 });
      return {
        type: 'line',
        data: { datasets: [line(s.label, s.n.map((x, i) => ({ x, y: s.p95[i] })), css('--c1'),
          { pointRadius: 5, pointHoverRadius: 7, pointBackgroundColor: colors, pointBorderColor: colors, pointStyle: shapes })] },
        options: base({
          x: axis('replicas', { type: 'linear', min: low, max: high, ticks: ticks((v) => v),
            afterBuildTicks(scale) { scale.ticks = everyStep(low, high, Math.ceil((high - low) / 12)); } }),
          y: axis(s.label, { beginAtZero: true, ticks: ticks((v) => ms(v)) }) }, {
          legend: { display: false }, whiskers: { half: s.half }, marks: { lines },
          tooltip: tooltip((i) => i.parsed.x + ' replicas', (i) => [s.label + ' ' + ms(i.parsed.y) + ' \u00b1 ' + ms(s.half[i.dataIndex]),
            percent(s.share[i.dataIndex]) + ' of the seeds meet the SLO']) }),
        plugins: [whiskers],
      };
    },
    load(run) {
      const end = run.arrivals.length * run.step_s;
      return {
        type: 'line',
        data: { datasets: [
          line('arrivals/s (left)', series(run.arrivals, run.step_s), css('--c1'), { borderWidth: 1.25 }),
          line('queued requests (right)', series(run.queued, run.step_s), css('--c2'), { yAxisID: 'q', stepped: true, fill: true, backgroundColor: faded(css('--c2'), 0.18) })] },
        options: base({ x: timeAxis(end), y: axis('arrivals/s', { beginAtZero: true }),
          q: axis('queued', { position: 'right', beginAtZero: true, suggestedMax: 10, grid: { display: false }, ticks: ticks((v) => three(v)) }) }, {
          marks: { lines: eventLines(run) },
          tooltip: tooltip(atTime, (i) => i.datasetIndex ? three(i.parsed.y) + ' queued' : three(i.parsed.y) + ' arrivals/s') }),
      };
    },
    ready(run) {
      return {
        type: 'line',
        data: { datasets: [line('ready replicas', series(run.ready, run.step_s), css('--c3'), { stepped: true, fill: true, backgroundColor: faded(css('--c3'), 0.18) })] },
        options: base({ x: timeAxis(run.ready.length * run.step_s), y: axis('replicas', { beginAtZero: true, ticks: ticks((v) => three(v), { precision: 0 }) }) }, {
          legend: { display: false }, marks: { lines: eventLines(run) },
          tooltip: tooltip(atTime, (i) => three(i.parsed.y) + ' ready replicas') }),
      };
    },
    // Predicted against measured, both on logarithmic axes, one colour a group.
    scatter(run) {
      const groups = Object.keys(run.points).sort();
      const palette = ['--blue', '--orange', '--green', '--violet', '--red', '--muted'].map((n, i) => css(n) || ['#2b6cb0', '#c05621', '#2f855a', '#6b46c1', '#c53030', '#718096'][i]);
      const all = groups.flatMap((g) => run.points[g]).flat().filter((x) => x > 0);
      const low = Math.min(...all) / 1.2, high = Math.max(...all) * 1.2;
      const guide = (factor, dash) => ({ type: 'line', label: '', data: [{ x: low, y: low * factor }, { x: high, y: high * factor }], borderColor: css('--muted'), borderWidth: 1, borderDash: dash, pointRadius: 0 });
      return {
        type: 'scatter',
        data: { datasets: groups.map((g, i) => ({ label: g, data: run.points[g].map((p) => ({ x: p[0], y: p[1] })), backgroundColor: palette[i % palette.length] + '99', pointRadius: 2 })).concat([guide(1, []), guide(1.2, [5, 4]), guide(0.8, [5, 4])]) },
        options: {
          animation: false, maintainAspectRatio: false,
          scales: {
            x: { type: 'logarithmic', min: low, max: high, title: { display: true, text: 'measured' } },
            y: { type: 'logarithmic', min: low, max: high, title: { display: true, text: 'predicted' } },
          },
          plugins: { legend: { labels: { filter: (item) => item.text !== '' } }, tooltip: { callbacks: { label: (c) => c.dataset.label + ': measured ' + three(c.parsed.x) + ', predicted ' + three(c.parsed.y) } } },
        },
      };
    },
    // Variants of a fleet: any column against any other, one colour per value of a third.
    sweep(run, canvas) {
      const pick = (key) => Number(canvas.dataset[key] === undefined ? run[key] : canvas.dataset[key]);
      const x = pick('x'), y = pick('y'), color = pick('color');
      chooser(canvas, run, { x, y, color });
      const value = (row, c) => row[c] === null ? NaN : Number(row[c]);
      const numeric = (c) => run.rows.every((row) => Number.isFinite(value(row, c)));
      const kinds = (c) => [...new Set(run.rows.map((row) => String(row[c])))];
      const at = (c) => { const words = numeric(c) ? null : kinds(c); return (row) => words ? words.indexOf(String(row[c])) : value(row, c); };
      const scale = (c) => axis(run.columns[c].label, { type: 'linear', grace: '5%', ticks: ticks((v) => numeric(c) ? three(v) : kinds(c)[v] || '') });
      const palette = ['--c1', '--c2', '--c3', '--c4', '--c5'].map(css), values = run.columns[color].setting ? kinds(color) : ['all'];
      const px = at(x), py = at(y);
      const name = (row) => run.columns.map((c, i) => c.setting ? c.label + ' ' + row[i] : '').filter(Boolean).join(', ');
      return {
        type: 'scatter',
        data: { datasets: values.slice(0, 20).map((v, i) => {
          const rows = run.rows.map((row, r) => [row, run.pareto[r]]).filter(([row]) => v === 'all' || String(row[color]) === v);
          const hue = palette[i % palette.length];
          return { label: v === 'all' ? 'variants' : run.columns[color].label + ' ' + v, data: rows.map(([row]) => ({ x: px(row), y: py(row), row })),
            borderColor: hue, backgroundColor: rows.map(([, front]) => front ? hue : 'transparent'), pointRadius: 5, pointHoverRadius: 7,
            pointStyle: ['circle', 'rect', 'triangle', 'rectRot'][Math.floor(i / palette.length) % 4] };
        }) },
        options: Object.assign(base({ x: scale(x), y: scale(y) }, {
          legend: { align: 'start', labels: { color: css('--ink'), usePointStyle: true, font: { size: 12 } } },
          tooltip: tooltip((i) => name(i.raw.row), (i) => [x, y].map((c) => run.columns[c].label + ' ' + (numeric(c) ? three(value(i.raw.row, c)) : i.raw.row[c]))) }),
          { interaction: { mode: 'nearest', intersect: true } }),
      };
    },
    cdf(run) {
      const names = [['queue_wait', 'queue wait', '--c2', [2, 3]], ['ttft', 'TTFT', '--c5', [7, 3]], ['tpot', 'TPOT', '--c4', [3, 2, 8, 2]], ['e2e', 'E2E', '--c1', []]];
      const shown = names.filter((n) => run.cdf[n[0]] && run.cdf[n[0]].length);
      const color = {};
      for (const n of names) color[n[0]] = css(n[2]);
      const lines = run.slos.map((s, i) => ({ x: s.ms, color: color[s.metric], label: s.label + ' \u2264 ' + ms(s.ms), row: i, roomy: true }));
      const quantiles = [...new Set(run.slos.map((s) => s.share).filter(Boolean))];
      for (const q of quantiles) lines.push({ y: q, label: 'p' + three(q * 100) });
      const largest = Math.max(10, ...shown.map((n) => run.cdf[n[0]][run.cdf[n[0]].length - 1][0]), ...run.slos.map((s) => s.ms));
      return {
        type: 'line',
        data: { datasets: shown.map((n) => line(n[1], run.cdf[n[0]].map((p) => ({ x: Math.max(p[0], 1), y: p[1] })), color[n[0]], { borderDash: n[3], borderWidth: 2 })) },
        options: base({
          x: axis('', { type: 'logarithmic', min: 1, max: largest * 1.15, ticks: ticks((v) => /^[125]/.test(String(v)) && (/^1/.test(String(v)) || window.innerWidth > 820) ? ms(v) : null) }),
          y: axis('share of the requests', { min: 0, max: 1, ticks: ticks((v) => percent(v)) }) }, {
          marks: { lines },
          tooltip: tooltip((i) => percent(i.parsed.y) + ' of the requests', (i) => i.dataset.label + ' \u2264 ' + ms(i.parsed.x)) }),
      };
    },
    batch: (run) => spread(run, run.heat.batch_mean, run.heat.batch_low, run.heat.batch_high, 'sequences', three),
    kv: (run) => spread(run, run.heat.kv_mean, run.heat.kv_low, run.heat.kv_high, 'KV used', percent),
  };
  // The three fields above a sweep's plot; made once.
  function chooser(canvas, run, chosen) {
    const figure = canvas.closest('figure');
    if (figure.querySelector('.chooser')) return;
    const bar = document.createElement('div');
    bar.className = 'chooser';
    for (const [key, label] of [['y', 'up'], ['x', 'across'], ['color', 'colour']]) {
      const field = document.createElement('label'), select = document.createElement('select');
      run.columns.forEach((column, i) => {
        if (key !== 'color' || column.setting) select.add(new Option(column.label, i, false, i === chosen[key]));
      });
      select.onchange = () => { canvas.dataset[key] = select.value; drawAll(); };
      field.append(label + ' ', select);
      bar.append(field);
    }
    canvas.parentElement.before(bar);
  }
  const kReplicaLabels = 64;  // pixels left of both plots of a replica figure, so that their times line up
  // The mean over the replicas inside the band from the least to the most loaded one.
  function spread(run, mean, low, high, title, show) {
    const step = run.heat.step_s, color = css('--c1');
    return {
      type: 'line',
      data: { datasets: [
        line('mean of the replicas', series(mean, step), color),
        line('least loaded', series(low, step), faded(color, 0.25), { borderWidth: 0.5 }),
        line('most loaded', series(high, step), faded(color, 0.25), { borderWidth: 0.5, fill: '-1', backgroundColor: faded(color, 0.14) })] },
      options: base({
        x: Object.assign(timeAxis(mean.length * step), { ticks: { display: false } }),
        y: axis(title, { beginAtZero: true, max: show === percent ? 1 : undefined, ticks: ticks((v) => show(v)),
          afterFit(scale) { scale.width = kReplicaLabels; } }) }, {
        legend: { display: false }, marks: { lines: eventLines(run).map((l) => ({ x: l.x })) },
        tooltip: tooltip(atTime, (i) => i.dataset.label + ' ' + show(i.parsed.y)) }),
    };
  }

  // ---- one row per replica, darker (on dark: brighter) is fuller ------------------------------------------------------
  function ramp() {
    const hex = ['--heat-0', '--heat-1', '--heat-2', '--heat-3'].map(css);
    const stops = hex.map((h) => [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16)));
    return (share) => {
      const at = Math.min(Math.max(share, 0), 1) * 3, i = Math.min(Math.floor(at), 2), f = at - i;
      return 'rgb(' + [0, 1, 2].map((k) => Math.round(stops[i][k] + f * (stops[i + 1][k] - stops[i][k]))).join() + ')';
    };
  }
  function heatmap(canvas, run, key) {
    const rows = run.heat[key], names = run.heat.names, step = run.heat.step_s, columns = rows.length ? rows[0].length : 0;
    const top = key === 'kv' ? 1 : Math.max(1, ...rows.map((r) => Math.max(...r)));
    const show = (v) => key === 'kv' ? percent(v) : three(v) + ' sequences';
    const height = rows.length > 16 ? 11 : 15, box = canvas.parentElement, left = kReplicaLabels, bottom = 20;
    const shown = (name) => name.length > 9 ? name.slice(0, 8) + '\u2026' : name;
    function draw() {
      const width = box.clientWidth, ratio = window.devicePixelRatio || 1, total = rows.length * height + bottom;
      canvas.width = width * ratio;
      canvas.height = total * ratio;
      canvas.style.width = width + 'px';
      canvas.style.height = total + 'px';
      const ctx = canvas.getContext('2d'), color = ramp(), cell = (width - left) / columns;
      ctx.scale(ratio, ratio);
      ctx.font = (height < 13 ? 9 : 11) + 'px ' + Chart.defaults.font.family;
      ctx.textBaseline = 'middle';
      rows.forEach((row, y) => {
        ctx.fillStyle = css('--muted');
        ctx.textAlign = 'right';
        ctx.fillText(shown(names[y]), left - 7, y * height + height / 2);
        row.forEach((v, x) => {
          ctx.fillStyle = color(v / top);
          ctx.fillRect(left + x * cell, y * height, cell + 0.6, height - 1);
        });
      });
      ctx.fillStyle = css('--muted');
      ctx.textBaseline = 'alphabetic';
      ctx.font = '11px ' + Chart.defaults.font.family;
      const end = columns * step, every = niceTimeStep(end) || end;
      for (let t = 0; t <= end; t += every) {
        ctx.textAlign = t === 0 ? 'left' : t + every / 2 > end ? 'right' : 'center';
        ctx.fillText(clock(t), left + (width - left) * t / end, total - 4);
      }
    }
    const tip = document.createElement('div');
    tip.className = 'tip';
    tip.hidden = true;
    box.appendChild(tip);
    canvas.onmousemove = (e) => {
      const x = Math.floor((e.offsetX - left) / ((box.clientWidth - left) / columns)), y = Math.floor(e.offsetY / height);
      tip.hidden = !(x >= 0 && x < columns && y >= 0 && y < rows.length);
      if (tip.hidden) return;
      tip.textContent = names[y] + ' at ' + clock(x * step) + ': ' + show(rows[y][x]);
      tip.style.left = Math.min(e.offsetX + 12, box.clientWidth - tip.offsetWidth) + 'px';
      tip.style.top = e.offsetY + 14 + 'px';
    };
    canvas.onmouseleave = () => { tip.hidden = true; };
    const scale = box.parentElement.querySelector('.scale b');
    if (scale) scale.textContent = key === 'kv' ? '100 %' : three(top);
    let width = 0;
    const observer = new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; draw(); } });
    observer.observe(box);
    draw();
    drawn.push({ destroy() { observer.disconnect(); tip.remove(); } });
  }

  function drawAll() {
    while (drawn.length) drawn.pop().destroy();
    let count = 0;
    const problems = [];
    for (const canvas of document.querySelectorAll('canvas[data-chart], canvas[data-heat]')) {
      try {
        const run = canvas.dataset.run ? data.runs[canvas.dataset.run] : null;
        if (canvas.dataset.heat) heatmap(canvas, run, canvas.dataset.heat);
        else {
          const config = plots[canvas.dataset.chart](run, canvas);
          config.plugins = [marks].concat(config.plugins || []);
          drawn.push(new Chart(canvas, config));
        }
        ++count;
      } catch (e) {
        problems.push((canvas.dataset.chart || canvas.dataset.heat) + ': ' + e.message);
      }
    }
    root.dataset.plots = count;  // for tests of the page
    root.dataset.problems = problems.join('; ');
  }

  // ---- tables ------------------------------------------------------------------------------------------------------
  function sortable(table) {
    table.querySelectorAll('thead th').forEach((th, column) => {
      if (!th.textContent.trim()) return;
      const button = document.createElement('button');
      button.type = 'button';
      while (th.firstChild) button.appendChild(th.firstChild);
      th.appendChild(button);
      button.onclick = () => {
        const down = th.getAttribute('aria-sort') === 'ascending';
        table.querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
        th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const value = (tr) => { const td = tr.cells[column]; return td.dataset.sort === undefined ? td.textContent : Number(td.dataset.sort); };
        const compare = (a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
        const rows = Array.from(table.tBodies[0].rows);
        rows.sort((a, b) => (down ? -1 : 1) * compare(value(a), value(b)));
        for (const row of rows) table.tBodies[0].appendChild(row);
      };
    });
  }
  function filterable(input) {
    const table = document.getElementById(input.dataset.table), output = input.parentElement.querySelector('output');
    const rows = Array.from(table.tBodies[0].rows), text = rows.map((r) => r.textContent.toLowerCase());
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => { row.hidden = !words.every((w) => text[i].includes(w)); shown += row.hidden ? 0 : 1; });
      output.textContent = shown + ' of ' + rows.length;
    };
    input.oninput = apply;
    apply();
  }

  document.querySelectorAll('table.sortable').forEach(sortable);
  document.querySelectorAll('input[data-table]').forEach(filterable);
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawAll();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  addEventListener('beforeprint', () => { root.classList.add('paper'); drawAll(); });
  addEventListener('afterprint', () => { root.classList.remove('paper'); drawAll(); });
})();
